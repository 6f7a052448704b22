//! What is live on a device: segments and blocks, changed by one event after the other.
//!
//! A tape's file has these from before its oldest event, and reading a file begins with them and applies its events.
//! An event has the requested bytes of a block; its size is taken to be the next multiple of 512, as far as there is
//! room (docs/caching-allocator.md 1.2).
#![forbid(unsafe_code)]

use std::collections::BTreeMap;

use super::{
    live_block::{BlockKind, BlockKinds, LiveBlock},
    sums::{Counted, Sums},
    tiling::tiled,
};
use memreel_snapshot::words::{
    Action, Address, BlockState, Event, InventoryBlock, InventorySegment, PoolId, PoolKind, RunSums,
    SeededMap, StackId, StreamId,
    torch::{BLOCK_BYTES, SMALL_SEGMENT_BYTES},
};

/// The segments and the blocks in use of a device.
#[derive(Clone, Debug, Default)]
pub(crate) struct LiveState {
    segments: BTreeMap<u64, LiveSegment>,
    blocks: SeededMap<u64, LiveBlock>,
    kinds: BlockKinds,
    /// What each stack allocated, of a device without segments.
    sums: Sums,
    /// Whether blocks were allocated and there was no segment so far.
    is_loose: bool,
}

#[derive(Clone, Copy, Debug)]
struct LiveSegment {
    bytes: u64,
    stream: StreamId,
    pool: PoolId,
    kind: PoolKind,
    is_expandable: bool,
    stack: StackId,
}

impl LiveSegment {
    /// Returns whether the other is a range of the same expandable segment.
    fn is_like(&self, other: &LiveSegment) -> bool {
        self.is_expandable && other.is_expandable && (self.stream, self.pool) == (other.stream, other.pool)
    }
}

impl LiveState {
    /// Takes over segments with their blocks.
    pub(crate) fn of(segments: &[InventorySegment]) -> LiveState {
        let mut live = LiveState::without_sums(segments);
        if live.segments.is_empty() {
            live.is_loose = !live.blocks.is_empty();
            let LiveState { blocks, kinds, .. } = &mut live;
            blocks.values_mut().for_each(|block| kinds.change(block, |kind| kind.counted = Counted::Live));
            live.sums =
                Sums::of_before(live.blocks.values().map(|block| (block.stack, block.requested_bytes)));
        }
        live
    }

    /// Takes over segments with their blocks, and what was allocated before.
    pub(crate) fn of_run(segments: &[InventorySegment], run: &RunSums) -> LiveState {
        if run.stacks.is_empty() {
            return LiveState::of(segments);
        }
        let mut live = LiveState::without_sums(segments);
        live.is_loose = live.segments.is_empty();
        live.sums = Sums::of_run(run);
        let LiveState { blocks, kinds, sums, .. } = &mut live;
        for block in blocks.values_mut() {
            let counted = sums.hold_again(block.stack, block.requested_bytes);
            kinds.change(block, |kind| kind.counted = counted);
        }
        live
    }

    fn without_sums(segments: &[InventorySegment]) -> LiveState {
        let mut live = LiveState::default();
        live.blocks.reserve(segments.iter().map(|segment| segment.blocks.len()).sum());
        for segment in segments {
            let InventorySegment {
                address, size_bytes: bytes, stream, kind, pool, is_expandable, stack, ..
            } = *segment;
            if bytes > 0 {
                live.segments
                    .insert(address.0, LiveSegment { bytes, stream, pool, kind, is_expandable, stack });
            }
            for block in segment.blocks.iter().filter(|block| block.state.is_active()) {
                let kind = BlockKind {
                    rounding_bytes: Some(block.size_bytes.wrapping_sub(block.requested_bytes)),
                    stream,
                    pool,
                    is_pending: block.state == BlockState::ActivePendingFree,
                    counted: Counted::Nothing,
                };
                live.blocks
                    .insert(block.address.0, live.kinds.block(block.requested_bytes, block.stack, kind));
            }
        }
        live
    }

    /// Returns what was allocated with each stack; nothing of a device with segments, whose blocks are in the events.
    pub(crate) fn sums(&self) -> RunSums {
        if self.has_segments() { RunSums::default() } else { self.sums.run() }
    }

    /// Applies events, each with its time as in [`LiveState::apply`].
    pub(crate) fn apply_all(&mut self, events: impl Iterator<Item = (Event, u64)>) {
        let mut events = events.peekable();
        while let Some((event, time_us)) = events.next() {
            // Half of a heap's events: the block leaves with the next one.
            let ends = |(next, _): &(Event, u64)| {
                next.action == Action::FreeCompleted && next.address == event.address
            };
            if event.action != Action::FreeRequested || !events.peek().is_some_and(ends) {
                self.apply(&event, time_us);
            }
        }
    }

    /// Applies an event of a time, which is in microseconds since the Unix epoch.
    pub(crate) fn apply(&mut self, event: &Event, time_us: u64) {
        let Event { action, address: Address(at), size_bytes: bytes, stream, pool, stack } = *event;
        match action {
            Action::Alloc => {
                let is_heap = self.segments.is_empty();
                let counted = if is_heap { Counted::Allocated } else { Counted::Nothing };
                let kind = BlockKind { rounding_bytes: None, stream, pool, is_pending: false, counted };
                self.is_loose |= is_heap;
                let before = self.blocks.insert(at, self.kinds.block(bytes, stack, kind));
                before.iter().for_each(|before| self.let_go(before));
                if is_heap {
                    self.sums.allocate(stack, bytes, time_us);
                }
            }
            Action::FreeRequested => {
                if let Some(block) = self.blocks.get_mut(&at) {
                    self.kinds.change(block, |kind| kind.is_pending = true);
                }
            }
            Action::FreeCompleted => {
                let freed = self.blocks.remove(&at);
                freed.iter().for_each(|freed| self.let_go(freed));
            }
            Action::SegmentAlloc | Action::SegmentMap => {
                let is_expandable = action == Action::SegmentMap;
                let is_small = if is_expandable {
                    bytes < 10 * SMALL_SEGMENT_BYTES
                } else {
                    bytes == SMALL_SEGMENT_BYTES
                };
                let kind = if is_small { PoolKind::Small } else { PoolKind::Large };
                self.is_loose = false;
                self.cut_out(at, bytes);
                self.add(at, LiveSegment { bytes, stream, pool, kind, is_expandable, stack });
            }
            Action::SegmentFree | Action::SegmentUnmap => self.cut_out(at, bytes),
            _ => {}
        }
    }

    /// Takes a block out of what its stack has live.
    fn let_go(&mut self, block: &LiveBlock) {
        self.sums.let_go(block.stack, block.requested_bytes, self.kinds.of(block).counted);
    }

    /// Adds a segment, as a part of those beside it if it is a range of the same expandable segment.
    fn add(&mut self, at: u64, segment: LiveSegment) {
        let (mut start, mut whole) = (at, segment);
        let before = self.segments.range(..at).next_back().map(|(at, segment)| (*at, *segment));
        if let Some((before, earlier)) = before
            && before.saturating_add(earlier.bytes) == at
            && earlier.is_like(&segment)
        {
            (start, whole) =
                (before, LiveSegment { bytes: earlier.bytes.saturating_add(segment.bytes), ..earlier });
        }
        let end = at.saturating_add(segment.bytes);
        if let Some(later) = self.segments.get(&end).copied().filter(|later| later.is_like(&segment)) {
            self.segments.remove(&end);
            whole.bytes = whole.bytes.saturating_add(later.bytes);
        }
        self.segments.insert(start, whole);
    }

    /// Removes a range of addresses from all segments.
    fn cut_out(&mut self, at: u64, bytes: u64) {
        let end = at.saturating_add(bytes);
        while let Some((&start, &segment)) = self.segments.range(..end).next_back() {
            let segment_end = start.saturating_add(segment.bytes);
            if segment_end <= at {
                break;
            }
            self.segments.remove(&start);
            if end < segment_end {
                self.segments.insert(end, LiveSegment { bytes: segment_end - end, ..segment });
            }
            if start < at {
                self.segments.insert(start, LiveSegment { bytes: at - start, ..segment });
            }
        }
    }

    /// Returns the requested bytes of the block at an address.
    pub(crate) fn bytes_at(&self, at: u64) -> Option<u64> {
        self.blocks.get(&at).map(|block| block.requested_bytes)
    }

    /// Calls `look` with the stack and the requested bytes of each block.
    pub(crate) fn for_each_block(&self, mut look: impl FnMut(StackId, u64)) {
        self.blocks.values().for_each(|block| look(block.stack, block.requested_bytes));
    }

    /// Calls `look` with the stack and the bytes of each segment.
    pub(crate) fn for_each_segment(&self, mut look: impl FnMut(StackId, u64)) {
        self.segments.values().for_each(|segment| look(segment.stack, segment.bytes));
    }

    /// Returns whether these are the blocks of an allocator that knows its segments, which a heap does not. Its blocks may all
    /// be free again.
    pub(crate) fn has_segments(&self) -> bool {
        !self.segments.is_empty() || self.blocks.is_empty() && !self.is_loose
    }

    /// Returns the segments with their blocks. A block outside all segments is a segment of its own; without any segment,
    /// all blocks are in one without a size.
    pub(crate) fn inventory(&self) -> Vec<InventorySegment> {
        let mut blocks: Vec<(u64, LiveBlock)> = self.blocks.iter().map(|(at, block)| (*at, *block)).collect();
        blocks.sort_unstable_by_key(|(at, _)| *at);
        if self.segments.is_empty() && !blocks.is_empty() {
            return vec![self.loose(&blocks)];
        }
        let mut rest = &blocks[..];
        let mut all = Vec::new();
        for (&start, segment) in &self.segments {
            let n_outside = rest.partition_point(|(at, _)| *at < start);
            self.add_outside(&rest[..n_outside], start, &mut all);
            rest = &rest[n_outside..];
            let end = start.saturating_add(segment.bytes);
            let (inside, behind) = rest.split_at(rest.partition_point(|(at, _)| *at < end));
            all.push(segment.with_blocks(start, self.sized(inside, end)));
            rest = behind;
        }
        self.add_outside(rest, u64::MAX, &mut all);
        all
    }

    /// Returns blocks with their sizes, each ending before the next and before `end`.
    fn sized(&self, blocks: &[(u64, LiveBlock)], end: u64) -> impl Iterator<Item = InventoryBlock> {
        let ends = blocks.iter().skip(1).map(|(at, _)| *at).chain([end]);
        blocks.iter().zip(ends).map(move |((at, block), end)| {
            let rounded =
                || block.requested_bytes.max(1).checked_next_multiple_of(BLOCK_BYTES).unwrap_or(u64::MAX);
            let size_bytes = self.kinds.size_bytes(block).unwrap_or_else(rounded).min(end - at);
            InventoryBlock {
                address: Address(*at),
                size_bytes,
                requested_bytes: block.requested_bytes.min(size_bytes),
                state: self.state(block),
                stack: block.stack,
            }
        })
    }

    /// Returns blocks with the sizes that were requested, in a segment without a size.
    fn loose(&self, blocks: &[(u64, LiveBlock)]) -> InventorySegment {
        let block = |(at, block): &(u64, LiveBlock)| InventoryBlock {
            address: Address(*at),
            size_bytes: self.kinds.size_bytes(block).unwrap_or(block.requested_bytes),
            requested_bytes: block.requested_bytes,
            state: self.state(block),
            stack: block.stack,
        };
        InventorySegment::of_blocks(blocks.iter().map(block).collect())
    }

    fn add_outside(&self, blocks: &[(u64, LiveBlock)], end: u64, all: &mut Vec<InventorySegment>) {
        for (block, (at, live)) in self.sized(blocks, end).zip(blocks) {
            let BlockKind { stream, pool, .. } = *self.kinds.of(live);
            let kind =
                if block.size_bytes <= SMALL_SEGMENT_BYTES { PoolKind::Small } else { PoolKind::Large };
            let stack = live.stack;
            let segment =
                LiveSegment { bytes: block.size_bytes, stream, pool, kind, is_expandable: false, stack };
            all.push(segment.with_blocks(*at, [block].into_iter()));
        }
    }

    fn state(&self, block: &LiveBlock) -> BlockState {
        if self.kinds.of(block).is_pending {
            BlockState::ActivePendingFree
        } else {
            BlockState::ActiveAllocated
        }
    }
}

impl LiveSegment {
    fn with_blocks(&self, start: u64, active: impl Iterator<Item = InventoryBlock>) -> InventorySegment {
        let LiveSegment { bytes, stream, pool, kind, is_expandable, stack } = *self;
        InventorySegment {
            address: Address(start),
            size_bytes: bytes,
            stream,
            kind,
            pool,
            is_expandable,
            stack,
            blocks: tiled(start, start.saturating_add(bytes), active),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::testing::random::Random;
    use memreel_snapshot::words::StackSum;

    fn event(action: Action, at: u64, size_bytes: u64) -> Event {
        let (stream, pool, stack) = (StreamId::DEFAULT, PoolId::DEFAULT, StackId(1));
        Event { action, address: Address(at), size_bytes, stream, pool, stack }
    }

    fn apply(live: &mut LiveState, action: Action, at: u64, size_bytes: u64) {
        live.apply(&event(action, at, size_bytes), 5);
    }

    fn blocks(live: &LiveState) -> Vec<Vec<(u64, u64, bool)>> {
        let of = |segment: &InventorySegment| {
            segment
                .blocks
                .iter()
                .map(|block| (block.address.0, block.size_bytes, block.state.is_active()))
                .collect()
        };
        live.inventory().iter().map(of).collect()
    }

    /// Also a block whose free was lost, and those from before the sums.
    #[test]
    fn sums_have_the_most_that_was_live_at_once() {
        let mut live = LiveState::of(&[InventorySegment::of_blocks(Vec::new())]);
        apply(&mut live, Action::Alloc, 0x10, 100);
        apply(&mut live, Action::Alloc, 0x20, 30);
        apply(&mut live, Action::FreeRequested, 0x10, 100);
        apply(&mut live, Action::FreeCompleted, 0x10, 100);
        apply(&mut live, Action::Alloc, 0x10, 50);
        apply(&mut live, Action::Alloc, 0x20, 60);
        let sum = |live: [u64; 1], allocated: [u64; 2], peak_bytes, at_peak: [u64; 2]| StackSum {
            stack: StackId(1),
            n_blocks: allocated[0],
            bytes: allocated[1],
            live_bytes: live[0],
            peak_bytes,
            n_at_peak: at_peak[0],
            bytes_at_peak: at_peak[1],
        };
        assert_eq!(live.sums().stacks, [sum([110], [4, 240], 130, [2, 130])]);
        let mut again = LiveState::of_run(&live.inventory(), &live.sums());
        assert_eq!(again.sums(), live.sums());
        apply(&mut again, Action::Alloc, 0x30, 21);
        assert_eq!(again.sums().stacks, [sum([131], [5, 261], 131, [3, 131])]);
        let mut of_child = LiveState::of(&again.inventory());
        apply(&mut of_child, Action::FreeCompleted, 0x10, 50);
        apply(&mut of_child, Action::Alloc, 0x10, 7);
        assert_eq!(
            of_child.sums().stacks,
            [sum([7], [1, 7], 7, [3, 131])],
            "without what the parent allocated, which was live when the child began"
        );
        let mut of_device = LiveState::default();
        apply(&mut of_device, Action::SegmentAlloc, 0x10000, 4096);
        apply(&mut of_device, Action::Alloc, 0x10000, 100);
        assert!(of_device.sums().stacks.is_empty());
    }

    /// A tape of an older memreel has no peak of the device.
    #[test]
    fn a_peak_that_a_tape_lacks_is_not_known() {
        let mut live = LiveState::of(&[InventorySegment::of_blocks(Vec::new())]);
        apply(&mut live, Action::Alloc, 0x10, 100);
        let mut before = live.sums();
        before.peak_us = None;
        before
            .stacks
            .iter_mut()
            .for_each(|sum| (sum.live_bytes, sum.n_at_peak, sum.bytes_at_peak) = (0, 0, 0));
        let mut again = LiveState::of_run(&live.inventory(), &before);
        apply(&mut again, Action::Alloc, 0x20, 30);
        let run = again.sums();
        assert_eq!((run.stacks[0].peak_bytes, run.peak_us), (130, None));
    }

    #[test]
    fn blocks_are_rounded_as_far_as_there_is_room() {
        let mut live = LiveState::default();
        for (action, at, bytes) in [
            (Action::SegmentAlloc, 0x10000, 4096),
            (Action::Alloc, 0x10000, 100),
            (Action::Alloc, 0x10200, 10),
            (Action::Alloc, 0x10300, 4000),
            (Action::FreeRequested, 0x10200, 10),
            (Action::Alloc, 0x10000, 200),
        ] {
            apply(&mut live, action, at, bytes);
        }
        let expected = vec![vec![(0x10000, 512, true), (0x10200, 256, true), (0x10300, 3328, true)]];
        assert_eq!(blocks(&live), expected);
        assert_eq!(live.inventory()[0].blocks[1].state, BlockState::ActivePendingFree);
        apply(&mut live, Action::FreeCompleted, 0x10200, 10);
        apply(&mut live, Action::FreeCompleted, 0x10300, 4000);
        assert_eq!(blocks(&live), [[(0x10000, 512, true), (0x10200, 3584, false)]]);
        let again = LiveState::of(&live.inventory());
        assert_eq!(again.inventory(), live.inventory());
        apply(&mut live, Action::SegmentAlloc, 0x20000, 4096);
        apply(&mut live, Action::SegmentFree, 0x10000, 4096);
        let found = blocks(&live);
        assert_eq!(found.iter().flatten().count(), 2, "{found:?}");
        for alone in [(0x10000, 512, true), (0x20000, 4096, false)] {
            assert!(
                found.contains(&vec![alone]),
                "a block that outlives its segment is shown alone: {found:?}"
            );
        }
        apply(&mut live, Action::SegmentFree, 0x20000, 4096);
        assert!(!live.has_segments());
        assert_eq!(
            blocks(&live),
            [[(0x10000, 200, true)]],
            "without segments, sizes are those that were requested"
        );
        assert!(!LiveState::of(&live.inventory()).has_segments());
    }

    #[test]
    fn a_heap_has_no_segments_when_all_of_it_is_free_again() {
        let mut live = LiveState::default();
        assert!(live.has_segments());
        for action in [Action::Alloc, Action::FreeRequested, Action::FreeCompleted] {
            apply(&mut live, action, 0x10000, 200);
            assert!(!live.has_segments(), "{action:?}");
            let again = LiveState::of_run(&live.inventory(), &live.sums());
            assert!(!again.has_segments(), "{action:?}");
        }
        assert!(live.inventory().is_empty());
    }

    /// Also frees that are requested and never completed, or completed for another block.
    #[test]
    fn events_together_are_events_one_by_one() {
        let actions = [Action::Alloc, Action::FreeRequested, Action::FreeCompleted, Action::Oom];
        for seed in 0..300 {
            let mut random = Random::new(seed);
            let events: Vec<(Event, u64)> = (0..60)
                .map(|time_us| {
                    let action = actions[random.index(actions.len())];
                    (event(action, 0x10 * random.below(3), 1 + random.below(9)), time_us)
                })
                .collect();
            let (mut together, mut one_by_one) = (LiveState::default(), LiveState::default());
            together.apply_all(events.iter().copied());
            events.iter().for_each(|(event, time_us)| one_by_one.apply(event, *time_us));
            assert_eq!(together.inventory(), one_by_one.inventory(), "{seed}");
            assert_eq!(together.sums(), one_by_one.sums(), "{seed}");
        }
    }

    #[test]
    fn ranges_of_an_expandable_segment_join_and_part() {
        const PAGE: u64 = 20 << 20;
        let mut live = LiveState::default();
        for at in [0, 2, 1] {
            apply(&mut live, Action::SegmentMap, at * PAGE, PAGE);
        }
        assert_eq!(blocks(&live), [[(0, 3 * PAGE, false)]]);
        apply(&mut live, Action::SegmentUnmap, PAGE, PAGE);
        assert_eq!(blocks(&live), [[(0, PAGE, false)], [(2 * PAGE, PAGE, false)]]);
        apply(&mut live, Action::SegmentUnmap, 0, 3 * PAGE);
        assert!(live.inventory().is_empty());
    }
}
