//! The end of a trace compared with the segments: rules 23 and 24, 27's streams, 29 and 33.
//!
//! Blocks that no event names are one warning a trace. An event without its counterpart is normal in
//! a ring of one entry (`enabled="state"`) and wherever a free still waits for its stream. So rule 29
//! is reported only where the walk shows that events are missing in between.

use super::{
    forward::WalkedTrace,
    keys,
    place::{BlockPlace, SegmentPlace},
};
use crate::{
    history::{FinalBlock, FinalState, Spot, State, active_blocks},
    model::{Field, RecordedSettings, Snapshot, TraceEntry},
    words::{Action, BlockState, Report, Rule},
};

/// Rules 23 and 24.
pub(super) fn check(trace: &WalkedTrace<'_>, end: &FinalState<'_>, snapshot: &Snapshot, report: &mut Report) {
    let (mut n_unnamed, mut unnamed_bytes) = (0u64, 0u64);
    for (number, segment) in end.segments() {
        let place = SegmentPlace { is_host: false, index: number };
        for found in active_blocks(segment) {
            if let Some(spot) = trace.walk.spot(found.block.address) {
                check_block(trace, &found, place.block(found.number), spot, snapshot, report);
            } else {
                n_unnamed += 1;
                unnamed_bytes = unnamed_bytes.saturating_add(found.block.size);
            }
        }
    }
    if n_unnamed > 0 {
        let why = if trace.entries.is_empty() {
            "the trace is empty; was recording enabled?"
        } else if n_unnamed == 1 {
            "it was allocated before recording started, or the ring dropped its events"
        } else {
            "they were allocated before recording started, or the ring dropped their events"
        };
        let blocks = if n_unnamed == 1 { "block in use has" } else { "blocks in use have" };
        let what = format_args!("{n_unnamed} {blocks} no events ({unnamed_bytes} bytes); {why}");
        report.warning(Rule::FinalState, trace.place, what);
    }
    check_missing(trace, end, report);
}

fn check_block(
    trace: &WalkedTrace<'_>,
    found: &FinalBlock<'_>,
    place: BlockPlace,
    spot: Spot,
    snapshot: &Snapshot,
    report: &mut Report,
) {
    let (block, name) = (&found.block, trace.place);
    let Some(expected) = spot.state.as_block() else {
        let what = format_args!("this block is in use, but it is free at the end of {name}");
        return report.error(Rule::FinalState, place, what);
    };
    if block.state != Some(expected) {
        let (is, should) = (block.state.map_or("", BlockState::name), expected.name());
        let what = format_args!("`state` is {is}, but at the end of {name} the block is {should}");
        report.error(Rule::FinalState, place, what);
    }
    let asked = spot.began_bytes;
    // The block has a requested size without the key too. Rule 24 is about the file's, and without the
    // key the block must be large enough; with it, rule 13 compares the two sizes of the block.
    let has_requested = keys::has_field(snapshot, block.shape, Field::RequestedSize);
    if has_requested && block.requested_size != asked {
        let what =
            format_args!("`requested_size` is {}, but its event in {name} has {asked}", block.requested_size);
        report.error(Rule::FinalRequestedSize, place, what);
    } else if !has_requested && block.size < asked {
        let what = format_args!("`size` is {}, but its event in {name} requested {asked} bytes", block.size);
        report.error(Rule::FinalRequestedSize, place, what);
    }
    let (of_segment, of_block) = (found.segment.stream, trace.lives[spot.life as usize].stream);
    if of_block != of_segment {
        let what = "this block was allocated on";
        let what = format_args!("{what} stream {of_block}, but its segment is on stream {of_segment}");
        report.warning(Rule::BlockInSegment, place, what);
    }
}

/// Rule 23 for blocks that the trace leaves in use, in the order of the trace.
fn check_missing(trace: &WalkedTrace<'_>, end: &FinalState<'_>, report: &mut Report) {
    for (index, life) in trace.lives.iter().enumerate() {
        let address = life.address;
        let Some(spot) = trace.walk.spot(address) else { continue };
        if spot.life as usize != index || spot.state == State::Free || end.block(address).is_some() {
            continue;
        }
        let state = if spot.state == State::Live { "allocated" } else { "waiting to be freed" };
        let what = format_args!(
            "at the end of the trace, the block at {address:#x} is {state}, but no segment has a block in use there"
        );
        match life.born {
            Some(born) => report.error(Rule::FinalState, trace.place.entry(born), what),
            None => report.error(Rule::FinalState, trace.place, what),
        }
    }
}

/// Rule 29: kinds of events that must have been there. `is_outside` is whether some block was in no
/// segment at its time.
pub(super) fn check_kinds(trace: &WalkedTrace<'_>, is_outside: bool, report: &mut Report) {
    let tally = &trace.tally;
    let has = |action: Action| tally.has(action);
    let (requests, completions) = (has(Action::FreeRequested), has(Action::FreeCompleted));
    let segments = [Action::SegmentAlloc, Action::SegmentFree, Action::SegmentMap, Action::SegmentUnmap]
        .into_iter()
        .any(has);
    let missing = [
        ("free_completed", requests && !completions && tally.unfinished + tally.repeated > 0),
        ("free_requested", completions && !requests && tally.unrequested > 0),
        ("free_requested and no free_completed", !requests && !completions && tally.doubled > 0),
        ("alloc", !has(Action::Alloc) && tally.repeated > 0),
        ("segment event", !segments && is_outside),
    ];
    for (kind, _) in missing.iter().filter(|(_, is_missing)| *is_missing) {
        let effect = match *kind {
            "free_requested" => "blocks that wait for a stream are counted as allocated",
            "free_requested and no free_completed" => "blocks never end in the viewer",
            _ => "the viewer's state history throws an error",
        };
        let what = format_args!("probably because of skip_actions, so {effect}");
        report.warning(Rule::MissingEvents, trace.place, format_args!("there is no {kind} at all, {what}"));
    }
}

/// Checks rule 33 (`W33`): signs that the ring lost its beginning. The file itself does not record it.
pub(super) fn check_overflow(trace: &WalkedTrace<'_>, recorded: RecordedSettings, report: &mut Report) {
    // A recording of nothing has the `snapshot` of its own dump.
    let is_of_nothing = |entry: &TraceEntry| entry.action == Some(Action::Snapshot) && entry.size == 0;
    let n_entries = trace.entries.len();
    if recorded.has_lost {
        let lost =
            if recorded.n_lost > 0 { format!("{} older", recorded.n_lost) } else { "older".to_owned() };
        let what = format_args!("the settings record that the ring dropped {lost} entries");
        report.warning(Rule::FullRing, trace.place, what);
    } else if n_entries == 1 && !trace.entries.iter().all(is_of_nothing) {
        let what = "the trace has a single entry, as with enabled=\"state\", so there is no history to show";
        report.warning(Rule::FullRing, trace.place, what);
    } else if is_common_cap(n_entries) {
        let what = "a common value of max_entries; the ring may have dropped older entries";
        report.warning(
            Rule::FullRing,
            trace.place,
            format_args!("the trace has {n_entries} entries, {what}"),
        );
    } else if trace.tally.unknown.2.is_some_and(|first| trace.tally.first_free == Some(first)) {
        let what = "the first free is of a block without an alloc event; the ring may have dropped older entries, or \
                    recording started late";
        report.warning(Rule::FullRing, trace.place, what);
    }
}

/// Whether a number of entries is a power of two, or a power of ten times less than ten.
fn is_common_cap(n_entries: usize) -> bool {
    let is_round = |base: usize| n_entries.is_multiple_of(base) && n_entries / base < 10;
    let powers = [1_000, 10_000, 100_000, 1_000_000, 10_000_000];
    powers.into_iter().any(is_round) && n_entries > 0 || n_entries >= 1024 && n_entries.is_power_of_two()
}
