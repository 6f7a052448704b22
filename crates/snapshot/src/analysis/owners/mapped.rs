//! Address space that a program mapped itself, by stack.

use std::{ops::Range, sync::Arc};

use crate::{
    analysis::Owners,
    history::Life,
    model::{MappedRange, Snapshot, StackIndex, Text},
    words::{DeviceId, ResidentArea},
};

/// A stack that mapped memory.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct MappedStack {
    /// A snapshot that has the stack.
    pub stacks: Arc<Snapshot>,
    /// The stack.
    pub stack: StackIndex,
    /// The resident bytes that it mapped.
    pub bytes: u64,
}

/// The ranges that one program mapped, with their stacks.
#[derive(Default)]
pub(super) struct MappedMemory {
    pub(super) stacks: Arc<Snapshot>,
    /// By address.
    pub(super) ranges: Vec<MappedRange>,
}

impl MappedMemory {
    pub(super) fn of(snapshot: &Snapshot, heap: DeviceId) -> MappedMemory {
        let (stacks, ranges) = snapshot.mapped(heap).unwrap_or_default();
        MappedMemory { stacks: Arc::new(stacks), ranges }
    }

    /// Returns the ranges that are there at a time, rising. `judge` knows the owners of the stacks.
    pub(super) fn at<'a, 'j>(&'a self, time_us: i64, judge: &'j mut Owners<'a>) -> MappedMemoryThen<'a, 'j> {
        let is_there = |of: &&MappedRange| u64::try_from(time_us).is_ok_and(|us| of.times_us.contains(&us));
        let mut ranges: Vec<&MappedRange> = self.ranges.iter().filter(is_there).collect();
        // No two ranges are at the same address; in a file where they are, the first counts.
        let mut end = 0;
        ranges.retain(|of| {
            let is_apart = of.range.start >= end && of.range.start < of.range.end;
            end = if is_apart { of.range.end } else { end };
            is_apart
        });
        MappedMemoryThen { ranges, judge, stacks: &self.stacks }
    }
}

/// The ranges that were there at one time.
pub(super) struct MappedMemoryThen<'a, 'j> {
    ranges: Vec<&'a MappedRange>,
    judge: &'j mut Owners<'a>,
    pub(super) stacks: &'a Arc<Snapshot>,
}

impl MappedMemoryThen<'_, '_> {
    /// Returns the ranges that meet an area, as far as they do, with their stacks and who mapped them. Those in which an
    /// allocator has blocks, as `has_blocks` says, are left out.
    pub(super) fn parts(
        &mut self,
        area: &ResidentArea,
        has_blocks: impl Fn(&Range<u64>) -> bool,
    ) -> Vec<(StackIndex, Text, u64)> {
        let first = self.ranges.partition_point(|of| of.range.end <= area.range.start);
        let last = self.ranges.partition_point(|of| of.range.start < area.range.end);
        let meeting = self.ranges.get(first..last).unwrap_or_default();
        let parts = meeting.iter().filter(|of| !has_blocks(&of.range));
        parts.map(|of| (of.stack, self.judge.of(Some(of.stack)), area.resident_of(&of.range))).collect()
    }
}

/// Returns whether one of the blocks, which are sorted by address, is in a range.
pub(super) fn has_one(blocks: &[&Life], range: &Range<u64>) -> bool {
    let first = blocks.partition_point(|life| life.address.0 < range.start);
    blocks.get(first).is_some_and(|life| life.address.0 < range.end)
}
