//! Holdings: which stack requested which device memory, and how long it was held.

use crate::{
    history::{Joining, Life, Moment, RangeValue, Ranges, insert_free, undo_segment_event},
    model::{Segment, Snapshot, StackIndex, StackTable, TraceEntry},
    words::{Action, Address, DeviceId},
};

/// Device memory that one request took and one release returned, or the part of it that shares both.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Holding {
    pub(crate) bytes: u64,
    /// The stack of the request; `None` if it was not recorded.
    pub(crate) stack: Option<StackIndex>,
    /// The moment from which it is held; [`Moment::START`] if it was held before the history.
    pub(crate) from: Moment,
    /// The moment at which it was returned; [`Moment::NEVER`] if not within the history.
    pub(crate) until: Moment,
}

impl Holding {
    pub(crate) fn is_held_at(&self, moment: Moment) -> bool {
        self.from <= moment && moment < self.until
    }
}

/// A range that is held at one point of the backward walk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Held {
    until: Moment,
    /// The stack of the segment in the file.
    stack: Option<StackIndex>,
}

/// Each range was returned at one moment, so none is merged with its neighbour.
impl RangeValue for Held {}

/// Returns the holdings of a device, latest end first. Entries that contradict the segments are undone as far as
/// possible, as in [`segments::at`](super::segments::at).
pub(crate) fn holdings(segments: &[&Segment], entries: &[TraceEntry]) -> Vec<Holding> {
    let (mut ranges, mut all) = (Ranges::default(), Vec::new());
    for segment in segments {
        let held = Held { until: Moment::NEVER, stack: known(segment.stack) };
        insert_free(&mut ranges, segment.address, segment.total_size, held, Joining::Apart);
    }
    for (number, entry) in entries.iter().enumerate().rev() {
        if matches!(entry.action, Some(Action::SegmentAlloc | Action::SegmentMap)) {
            let end = taken_end(&ranges, entry);
            take(&mut ranges, entry.address, end, |held, bytes| {
                let stack = known(entry.stack).or(held.stack);
                all.push(Holding { bytes, stack, from: Moment::after(number), until: held.until });
            });
        } else {
            // For it, a range that a later one overlaps does not exist.
            let held = Held { until: Moment::after(number), stack: None };
            let _ = undo_segment_event(&mut ranges, entry, held, Joining::Apart);
        }
    }
    all.extend(ranges.iter().map(|(start, span)| Holding {
        bytes: span.end - start,
        stack: span.value.stack,
        from: Moment::START,
        until: span.value.until,
    }));
    all
}

/// Returns the holdings of a device of which only the blocks are known, such as a process's heap: its segments are
/// pages that were not requested.
pub(crate) fn of_blocks(lives: &[Life]) -> Vec<Holding> {
    let holding = |life: &Life| Holding {
        bytes: life.represented_bytes,
        stack: known(life.stack),
        from: life.from,
        until: life.until,
    };
    lives.iter().map(holding).collect()
}

/// Returns whether requests for device memory are known: for a segment, by an event or in the file. A heap has segment
/// events too, which nothing requested.
pub(crate) fn has_requests(
    snapshot: &Snapshot,
    device: DeviceId,
    segments: &[&Segment],
    entries: &[TraceEntry],
) -> bool {
    let is_request =
        |entry: &TraceEntry| matches!(entry.action, Some(Action::SegmentAlloc | Action::SegmentMap));
    let is_heap = || snapshot.usage().iter().any(|usage| usage.device == device && usage.is_heap());
    let is_requested =
        segments.iter().any(|segment| known(segment.stack).is_some()) || entries.iter().any(is_request);
    is_requested && !is_heap()
}

fn known(stack: Option<StackIndex>) -> Option<StackIndex> {
    stack.filter(|stack| *stack != StackTable::EMPTY)
}

/// Returns the end of what an entry took. A segment that has another size in the file is one request nevertheless.
fn taken_end(ranges: &Ranges<Held>, entry: &TraceEntry) -> Address {
    match ranges.get(entry.address) {
        Some(span) if entry.action == Some(Action::SegmentAlloc) => span.end.max(entry.end()),
        _ => entry.end(),
    }
}

/// Removes `[start, end)`, and calls `look` with the value and the bytes of each piece that was there.
fn take(ranges: &mut Ranges<Held>, start: Address, end: Address, mut look: impl FnMut(Held, u64)) {
    while let Some((from, span)) = ranges.overlapping(start, end) {
        let (from, to) = (from.max(start), span.end.min(end));
        look(span.value, to - from);
        ranges.carve(from, to);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use fastrand::Rng;

    use crate::model::Block;

    /// The oracle has the stack of every page in use.
    #[test]
    fn holdings_are_those_of_the_pages() {
        for seed in 0..400 {
            let mut random = Rng::with_seed(seed);
            let mut pages: BTreeMap<u64, u32> = BTreeMap::new();
            let (mut entries, mut states) = (Vec::new(), Vec::new());
            let n_before = random.usize(..40);
            for number in 0..80_u32 {
                let (start, n) = (random.u64(..30), 1 + random.u64(..5));
                let range = start..start + n;
                let n_held = range.clone().filter(|page| pages.contains_key(page)).count() as u64;
                let action = match n_held {
                    0 => Action::SegmentMap,
                    held if held == n => Action::SegmentUnmap,
                    _ => continue,
                };
                for page in range {
                    match action {
                        Action::SegmentMap => pages.insert(page, number + 1),
                        _ => pages.remove(&page),
                    };
                }
                let stack = Some(StackIndex(number + 1));
                let (action, size) = (Some(action), n << 12);
                entries.push(TraceEntry {
                    action,
                    address: Address(start << 12),
                    size,
                    stack,
                    ..TraceEntry::default()
                });
                states.push(pages.clone());
            }
            // The ring lost the first entries, so what they mapped has the stack of its segment, if it exists at the
            // end.
            let lost = n_before.min(entries.len());
            let segments: Vec<Segment> = pages.iter().map(|(page, stack)| segment(*page, *stack)).collect();
            let segments: Vec<&Segment> = segments.iter().collect();
            let found = holdings(&segments, &entries[lost..]);
            let n_kept_at_end = |page: &u64, stack: &u32| pages.get(page) == Some(stack);
            for (at, state) in states.iter().enumerate().skip(lost) {
                let moment = Moment::after(at - lost);
                let mut expected: BTreeMap<Option<u32>, u64> = BTreeMap::new();
                for (page, stack) in state {
                    let is_known = states[..lost].last().is_none_or(|before| before.get(page) != Some(stack))
                        || n_kept_at_end(page, stack);
                    *expected.entry(is_known.then_some(*stack)).or_default() += 4096;
                }
                let mut sums: BTreeMap<Option<u32>, u64> = BTreeMap::new();
                for holding in found.iter().filter(|holding| holding.is_held_at(moment)) {
                    *sums.entry(holding.stack.map(|stack| stack.0)).or_default() += holding.bytes;
                }
                assert_eq!(sums, expected, "seed {seed}, {moment:?}");
            }
        }
    }

    fn segment(page: u64, stack: u32) -> Segment {
        let block = Block { address: Address(page << 12), size: 4096, ..Block::default() };
        Segment {
            address: Address(page << 12),
            total_size: 4096,
            stack: Some(StackIndex(stack)),
            is_expandable: true,
            blocks: vec![block],
            ..Segment::default()
        }
    }

    #[test]
    fn entries_that_contradict_the_segments_are_undone_as_far_as_possible() {
        let entry = |action, address, size| TraceEntry {
            action: Some(action),
            address: Address(address),
            size,
            stack: Some(StackIndex(1)),
            ..TraceEntry::default()
        };
        let trace = [
            entry(Action::SegmentAlloc, 0, u64::MAX),
            entry(Action::SegmentFree, 4096, 4096),
            entry(Action::SegmentMap, 4096, 0),
            entry(Action::SegmentUnmap, 0, 99),
        ];
        let segment = segment(1, 7);
        let found = holdings(&[&segment], &trace);
        assert_eq!(found.iter().map(|holding| holding.bytes).sum::<u64>(), 4096 + 99);
    }
}
