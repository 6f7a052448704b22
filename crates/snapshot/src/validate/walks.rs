//! The trace of one device walked forward and backward: rules 20 to 29, 33 and 36.

use super::{backward, ends, forward::WalkedTrace, memory::DeviceMemory, place::TracePlace, timeline};
use crate::{
    history::{FinalState, Forward, Times, disorder},
    model::{RecordedDevices, Snapshot, TraceEntry},
    words::{Report, Rule},
};

/// Checks a trace whose entries can be read.
pub(super) fn check(
    snapshot: &Snapshot,
    recorded: &RecordedDevices,
    device: usize,
    entries: &[TraceEntry],
    memory: &DeviceMemory<'_>,
    report: &mut Report,
) {
    let place = TracePlace::Device(device);
    let trace = WalkedTrace::new(entries, place, report);
    if trace.tally.has_contradictions() {
        report_order(entries, place, report);
    } else {
        check_order(entries, place, report);
    }
    ends::check_overflow(&trace, recorded.of(device.into()), report);
    if memory.is_unreadable {
        let what = "the trace was not compared with the segments, because some of them cannot be read (rules 1, 2, \
                    4, 8, 9 and 12)";
        report.warning(Rule::FinalState, place, what);
    } else {
        let end = FinalState::new(memory.segments.iter().copied());
        ends::check(&trace, &end, snapshot, report);
        let is_outside = backward::check(&trace, &end, report);
        ends::check_kinds(&trace, is_outside, report);
    }
    timeline::check(&trace, report);
}

/// Rule 20's warning, for a list whose order does not contradict itself or cannot be followed.
pub(super) fn check_order(entries: &[TraceEntry], place: TracePlace, report: &mut Report) {
    if let Some(found) = disorder(entries, false) {
        let older = match found.n_entries {
            1 => "1 entry is older than an entry before it".to_owned(),
            n => format!("{n} entries are older than an entry before them"),
        };
        let what = format_args!("{older}, but viewers follow the order of the list");
        report.warning(Rule::Times, place.entry(found.entry), what);
    }
}

/// Rule 20's error, for a list whose order contradicts itself. If the order of the times does not, the
/// list was shuffled. If it does too, entries are missing, such as in a ring whose size was changed.
fn report_order(entries: &[TraceEntry], place: TracePlace, report: &mut Report) {
    let Some(found) = disorder(entries, true) else { return };
    let times = Times::new(entries);
    let mut by_time: Vec<(i64, &TraceEntry)> = times.all().iter().copied().zip(entries).collect();
    by_time.sort_by_key(|(time_us, _)| *time_us);
    let mut walk = Forward::default();
    let is_mended = !by_time.into_iter().any(|(_, entry)| walk.step(entry).is_contradiction());
    let what = match is_mended {
        true => "replayed in that order, they are consistent, so sort them by `time_us`",
        // Then a step back as small as the jitter of clocks is not the reason.
        false if disorder(entries, false).is_none() => return,
        false => {
            "neither order is consistent, perhaps because the ring was resized; record again with clear_history"
        }
    };
    let first = place.entry(found.entry);
    report.error(Rule::Times, first, format_args!("the entries are not in the order of their times; {what}"));
}
