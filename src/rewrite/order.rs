//! The order of a trace: a ring whose size was changed writes its parts in the wrong one (docs/snapshot-format.md 2.5).

use rustc_hash::FxHashMap;

use super::{change::Changes, trace_end::TraceEnd};
use crate::{
    event::{Action, Address},
    inventory::BlockState,
    snapshot::{Field, Shapes, TraceEntry},
};

/// Sorts a trace by its times, if its own order contradicts itself and that of
/// the times does so less often. Entries of one time keep their order.
pub(super) fn fix(
    trace: &mut Vec<TraceEntry>,
    end: &TraceEnd<'_>,
    shapes: &Shapes,
    place: &str,
    changes: &mut Changes,
) {
    let is_sorted = trace.is_sorted_by_key(|entry| entry.time_us);
    if is_sorted || !trace.iter().all(|entry| shapes.get(entry.shape).has(Field::TimeUs)) {
        return;
    }
    let n_before = n_contradictions(trace, end);
    if n_before == 0 {
        return;
    }
    let mut sorted = trace.clone();
    sorted.sort_by_key(|entry| entry.time_us);
    if n_contradictions(&sorted, end) < n_before {
        let n_moved = trace.iter().zip(&sorted).filter(|(one, other)| one != other).count();
        changes.add(
            place,
            "put entries in the order of their times, as before the ring was resized",
            n_moved,
        );
        *trace = sorted;
    }
}

/// How many steps of the addresses are impossible (invariants 21, 23 and 26).
fn n_contradictions(trace: &[TraceEntry], end: &TraceEnd<'_>) -> usize {
    let mut last: FxHashMap<(bool, Address), &TraceEntry> = FxHashMap::default();
    let mut n = 0;
    for entry in trace {
        let Some(action) = entry.action else { continue };
        let is_segment = match action {
            Action::Alloc | Action::FreeRequested | Action::FreeCompleted => false,
            Action::SegmentAlloc | Action::SegmentFree => true,
            _ => continue,
        };
        let before = last.insert((is_segment, entry.address), entry).and_then(|entry| entry.action);
        n += usize::from(match before {
            None => false,
            Some(Action::FreeRequested) => action != Action::FreeCompleted,
            Some(Action::Alloc | Action::SegmentAlloc) => Some(action) == before,
            Some(_) => !matches!(action, Action::Alloc | Action::SegmentAlloc),
        });
    }
    n + last.into_values().filter(|entry| !ends_as(entry, end)).count()
}

/// Whether an address can end with this event, as the segments are.
fn ends_as(last: &TraceEntry, end: &TraceEnd<'_>) -> bool {
    let state = end.state.state(last.address);
    match last.action {
        Some(Action::Alloc) => state == Some(BlockState::ActiveAllocated),
        Some(Action::FreeRequested) => state == Some(BlockState::ActivePendingFree),
        Some(Action::FreeCompleted) => state.is_none(),
        Some(Action::SegmentAlloc) => end.ranges.get(last.address).is_some(),
        _ => end.ranges.get(last.address).is_none(),
    }
}
