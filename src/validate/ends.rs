//! The end of the forward replay against the segments: rules 23 and 24, 27's streams, 29 and 33.
//!
//! Blocks that no event names are one warning a trace. An entry without a
//! counterpart is the normal thing in a ring of one entry (`enabled="state"`)
//! and wherever a free still waits for its stream, so rule 29 speaks only
//! where the replay shows that events are missing in between.

use rustc_hash::FxHashMap;

use super::{
    forward::{Forward, Spot, State},
    memory::{ActiveBlock, DeviceMemory},
};
use crate::{
    event::{Action, Address},
    finding::{Report, Rule},
    inventory::BlockState,
};

/// Rules 23 and 24.
pub(super) fn check(forward: &Forward<'_>, memory: &DeviceMemory, report: &mut Report) {
    let (mut n_unnamed, mut unnamed_bytes) = (0u64, 0u64);
    let mut active: FxHashMap<Address, BlockState> = FxHashMap::default();
    for block in &memory.active {
        active.insert(block.address, block.state);
        match forward.spots.get(&block.address) {
            Some(spot) => check_block(forward, block, *spot, report),
            None => {
                n_unnamed += 1;
                unnamed_bytes = unnamed_bytes.saturating_add(block.size);
            }
        }
    }
    if n_unnamed > 0 {
        let why = if forward.entries.is_empty() {
            "the trace is empty: was recording on?"
        } else {
            "they were allocated before recording began, or the ring lost their alloc"
        };
        let what = format_args!("{n_unnamed} active blocks ({unnamed_bytes} bytes) have no event: {why}");
        report.warning(Rule::FinalState, forward.place, what);
    }
    check_missing(forward, &active, report);
}

fn check_block(forward: &Forward<'_>, block: &ActiveBlock, spot: Spot, report: &mut Report) {
    let (place, trace, address) = (block.place, forward.place, block.address);
    let expected = match spot.state {
        State::Live => BlockState::ActiveAllocated,
        State::Pending => BlockState::ActivePendingFree,
        State::Free => {
            let what = format_args!("is active, but {trace} ends with {address:#x} free");
            report.error(Rule::FinalState, place, what);
            return;
        }
    };
    if block.state != expected {
        let (is, should) = (block.state.name(), expected.name());
        report.error(Rule::FinalState, place, format_args!("is {is}, but after {trace} it is {should}"));
    }
    let life = &forward.lives[spot.life as usize];
    let size = life.size;
    match block.requested_size {
        Some(requested) if requested != size => {
            report.error(
                Rule::FinalRequestedSize,
                place,
                format_args!("requested_size {requested}, but {trace} says {size}"),
            );
        }
        // With the key rule 13 holds the two sizes of the block together.
        None if block.size < size => {
            report.error(
                Rule::FinalRequestedSize,
                place,
                format_args!("{} bytes, but {trace} asked for {size}", block.size),
            );
        }
        _ => {}
    }
    if life.stream != block.stream {
        let (block, life) = (block.stream, life.stream);
        report.warning(
            Rule::BlockInSegment,
            place,
            format_args!("in a segment of stream {block}, allocated on stream {life}"),
        );
    }
}

/// Rule 23 the other way round, in the order of the trace.
fn check_missing(forward: &Forward<'_>, active: &FxHashMap<Address, BlockState>, report: &mut Report) {
    for (index, life) in forward.lives.iter().enumerate() {
        let address = life.address;
        let Some(spot) = forward.spots.get(&address) else { continue };
        if spot.life as usize != index || spot.state == State::Free || active.contains_key(&address) {
            continue;
        }
        let state = if spot.state == State::Live { "live" } else { "waiting to be freed" };
        let what = format_args!("the trace ends with {address:#x} {state}, but no active block begins there");
        match life.born {
            Some(born) => report.error(Rule::FinalState, forward.place.entry(born), what),
            None => report.error(Rule::FinalState, forward.place, what),
        }
    }
}

/// Rule 29: kinds of events that must have been there. `outside` tells that
/// some block was in no segment at its time.
pub(super) fn check_kinds(forward: &Forward<'_>, outside: bool, report: &mut Report) {
    let tally = &forward.tally;
    let has = |action: Action| tally.count(action) > 0;
    let (requests, completions) = (has(Action::FreeRequested), has(Action::FreeCompleted));
    let segments = [Action::SegmentAlloc, Action::SegmentFree, Action::SegmentMap, Action::SegmentUnmap]
        .into_iter()
        .any(has);
    let missing = [
        ("free_completed", requests && !completions && tally.unfinished + tally.repeated > 0),
        ("free_requested", completions && !requests && tally.unrequested > 0),
        ("free_requested and no free_completed", !requests && !completions && tally.doubled > 0),
        ("alloc", !has(Action::Alloc) && tally.repeated > 0),
        ("segment event", !segments && outside),
    ];
    for (kind, _) in missing.iter().filter(|(_, is_missing)| *is_missing) {
        let what = "looks like skip_actions; the viewer's state history throws without them";
        report.warning(Rule::MissingEvents, forward.place, format_args!("no {kind} at all: {what}"));
    }
}

/// Checks rule 33 (`W33`): signs that the ring lost its beginning. The file itself does not record it.
pub(super) fn check_overflow(forward: &Forward<'_>, report: &mut Report) {
    let n_entries = forward.entries.len();
    if n_entries == 1 {
        let what = "a single entry, as recorded with enabled=\"state\": there is no history to show";
        report.warning(Rule::FullRing, forward.place, what);
    } else if is_common_cap(n_entries) {
        let what = "a usual max_entries: the ring may be full, and older entries lost";
        report.warning(Rule::FullRing, forward.place, format_args!("{n_entries} entries, {what}"));
    } else if forward.tally.unknown.2.is_some_and(|first| forward.tally.first_free == Some(first)) {
        let what = "its first free is of a block without alloc: older entries may be lost, or recording \
                    began late";
        report.warning(Rule::FullRing, forward.place, what);
    }
}

/// Powers of ten and of two, and small multiples of the former.
fn is_common_cap(n_entries: usize) -> bool {
    let is_round = |base: usize| n_entries.is_multiple_of(base) && n_entries / base < 10;
    let powers = [1_000, 10_000, 100_000, 1_000_000, 10_000_000];
    powers.into_iter().any(is_round) && n_entries > 0 || n_entries >= 1024 && n_entries.is_power_of_two()
}
