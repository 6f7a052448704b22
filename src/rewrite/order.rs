//! Sorts the entries of a ring whose size was changed.
//!
//! PyTorch writes the parts of such a ring in the wrong order (`docs/snapshot-format.md` 2.5).

use rustc_hash::FxHashMap;

use super::{change::Changes, trace_end::TraceEnd};
use crate::{
    event::{Action, Address},
    history::{Contradiction, Forward, Step},
    snapshot::{Field, Shapes, TraceEntry},
};

/// Sorts a trace by time if that leaves fewer contradictions. Entries of one time keep their order.
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

/// The number of entries that cannot follow the entries before them, and of addresses that cannot end as
/// they do (invariants 21, 23 and 26).
fn n_contradictions(trace: &[TraceEntry], end: &TraceEnd<'_>) -> usize {
    let mut walk = Forward::default();
    let mut segments: FxHashMap<Address, bool> = FxHashMap::default();
    let mut n = 0;
    for entry in trace {
        let step = walk.step(entry);
        n += usize::from(step.is_contradiction());
        if step == Step::Contradiction(Contradiction::RequestOfFree) {
            walk.begin_requested(entry);
        }
        if let Some(Action::SegmentAlloc | Action::SegmentFree) = entry.action {
            let is_there = entry.action == Some(Action::SegmentAlloc);
            n += usize::from(segments.insert(entry.address, is_there) == Some(is_there));
        }
    }
    let blocks = walk.spots().filter(|(address, spot)| spot.state.as_block() != end.state.state(*address));
    let segments = segments.iter().filter(|(at, is_there)| end.ranges.get(**at).is_some() != **is_there);
    n + blocks.count() + segments.count()
}
