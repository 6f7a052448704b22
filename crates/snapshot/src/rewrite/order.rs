//! Sorts the entries of a ring whose size was changed.
//!
//! PyTorch writes the parts of such a ring in the wrong order (`docs/snapshot-format.md` 2.5).

use super::trace_end::TraceEnd;
use crate::{
    history::{Contradiction, Forward, Step, Times, disorder},
    model::TraceEntry,
    words::{Action, Address, SeededMap},
};

/// What sorting a trace is called in a list of changes.
pub(super) const SORTED: &str = "sorted entries by time, as they were before the ring was resized";

/// Returns a trace that is out of order sorted by time, and how many entries that moves, if it leaves fewer
/// contradictions, or none. Entries of one time keep their order, and undated ones stay behind the entry
/// before them.
pub(super) fn sorted(trace: &[TraceEntry], end: &TraceEnd<'_>) -> Option<(Vec<TraceEntry>, usize)> {
    let n_before = n_contradictions(trace, end);
    disorder(trace, n_before > 0)?;
    let times = Times::new(trace).all().into_owned();
    let mut dated: Vec<(i64, TraceEntry)> = times.into_iter().zip(trace.iter().copied()).collect();
    dated.sort_by_key(|(time_us, _)| *time_us);
    let sorted: Vec<TraceEntry> = dated.into_iter().map(|(_, entry)| entry).collect();
    let n_after = n_contradictions(&sorted, end);
    let n_moved = trace.iter().zip(&sorted).filter(|(one, other)| one != other).count();
    (n_after < n_before || n_after == 0).then_some((sorted, n_moved))
}

/// The number of entries that cannot follow the entries before them, and of addresses that cannot end as
/// they do (invariants 21, 23 and 26).
fn n_contradictions(trace: &[TraceEntry], end: &TraceEnd<'_>) -> usize {
    let mut walk = Forward::default();
    let mut segments: SeededMap<Address, bool> = SeededMap::default();
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
