//! The trace of one device walked forward and backward: rules 20 to 29, 33 and 36.

use super::{
    backward, ends,
    forward::WalkedTrace,
    memory::DeviceMemory,
    place::{EntryPlace, TracePlace},
    timeline,
};
use crate::{
    finding::{Report, Rule},
    history::{FinalState, Forward},
    snapshot::{Snapshot, TraceEntry},
};

/// Checks a trace whose entries can be read. `unordered` is the first entry that is older than one
/// before it.
pub(super) fn check(
    snapshot: &Snapshot,
    entries: &[TraceEntry],
    place: TracePlace,
    memory: &DeviceMemory<'_>,
    unordered: Option<EntryPlace>,
    report: &mut Report,
) {
    let trace = WalkedTrace::new(entries, place, report);
    if let Some(first) = unordered.filter(|_| trace.tally.has_contradictions()) {
        report_order(entries, first, report);
    }
    ends::check_overflow(&trace, report);
    if memory.is_unreadable {
        let what = "not compared with the segments, which cannot be read (rules 1, 2, 4, 8, 9 and 12)";
        report.warning(Rule::FinalState, place, what);
    } else {
        let end = FinalState::new(memory.segments.iter().copied());
        ends::check(&trace, &end, snapshot, report);
        let is_outside = backward::check(&trace, &end, report);
        ends::check_kinds(&trace, is_outside, report);
    }
    timeline::check(&trace, report);
}

/// Rule 20's error, for a list whose order contradicts itself. If the order of the times does not, the
/// list was shuffled. If it does too, entries are missing, such as in a ring whose size was changed.
fn report_order(entries: &[TraceEntry], first: EntryPlace, report: &mut Report) {
    let mut by_time: Vec<&TraceEntry> = entries.iter().collect();
    by_time.sort_by_key(|entry| entry.time_us);
    let mut walk = Forward::default();
    let what = if by_time.into_iter().any(|entry| walk.step(entry).is_contradiction()) {
        "neither order makes sense: a ring whose size was changed, say; record again with clear_history"
    } else {
        "replayed by time the entries make sense: sort them by `time_us`"
    };
    report.error(Rule::Times, first, format_args!("entries are not in the order of their times; {what}"));
}
