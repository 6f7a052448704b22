//! Blocks: rules 4, 8, 9, 10, 12, 13 and 15.
//!
//! PyTorch 2.0 wrote neither `frames` nor `requested_size`, and readers still accept its blocks. Rule 13
//! therefore requires `requested_size` only where there are `frames`.

use super::{
    frames::Frames,
    issue::Issue,
    keys::{self, Table},
    place::{BlockPlace, SegmentPlace},
    values::{check_address, check_exact},
};
use crate::{
    model::{Block, Field, Segment, Snapshot, schema},
    words::{BlockState, Report, Rule},
};

/// The default rounding of requests.
const ROUNDING_BYTES: u64 = 512;

/// Keys that PyTorch writes but readers do not need.
const CUSTOMARY: [Field; 2] = [Field::Address, Field::Frames];

/// The sums over the blocks of one segment, in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sums {
    pub(super) allocated_size: u64,
    pub(super) active_size: u64,
    /// `None` where an active block lacks the key.
    pub(super) requested_size: Option<u64>,
}

/// Checks the blocks of one segment after the other.
#[derive(Debug)]
pub(super) struct Check<'a> {
    snapshot: &'a Snapshot,
    table: Table<'a>,
}

impl<'a> Check<'a> {
    pub(super) fn new(snapshot: &'a Snapshot) -> Check<'a> {
        Check { snapshot, table: Table::new(snapshot, schema::BLOCK) }
    }

    /// Checks the blocks of a segment and returns their sums; `None` if a block has no size or no state.
    pub(super) fn check(
        &mut self,
        segment: &Segment,
        place: SegmentPlace,
        frames: &mut Frames<'_>,
        report: &mut Report,
    ) -> Option<Sums> {
        for (index, block) in segment.blocks.iter().enumerate() {
            self.keys(block, place.block(index), report);
            self.sizes(block, place.block(index), !place.is_host, report);
            self.frames(block, place.block(index), frames, report);
        }
        let has_total = [Field::TotalSize, Field::Blocks]
            .into_iter()
            .all(|field| keys::has_field(self.snapshot, segment.shape, field));
        if let Some(sum) = self.sum(segment).filter(|sum| *sum != segment.total_size && has_total) {
            let total = segment.total_size;
            let what =
                "PyTorch's tool `stats` requires both to be equal, and the viewer may draw past the end";
            let what = format_args!("`total_size` is {total}, but its blocks add up to {sum} bytes; {what}");
            report.error(Rule::BlockSizes, place, what);
        }
        self.addresses(segment, place, report);
        self.neighbours(segment, place, report);
        self.sums(segment)
    }

    /// Rules 4 and 8, and the missing keys of rules 9, 10, 12 and 13.
    fn keys(&mut self, block: &Block, place: BlockPlace, report: &mut Report) {
        let facts = self.table.facts(block.shape);
        Issue::report_all(&facts.issues, place, report);
        if facts.lacks(Field::Size) {
            report.error(Rule::BlockSizes, place, "`size` is missing; viewers and tools need it");
        }
        if facts.lacks(Field::State) {
            report.error(Rule::BlockState, place, "`state` is missing; viewers and tools need it");
        }
        if let Some(what) = keys::missing(schema::BLOCK, facts, &CUSTOMARY, "PyTorch 2.1 and later write") {
            report.pytorch(Rule::SegmentKeys, place, what);
        }
        if facts.lacks(Field::RequestedSize) && facts.has(Field::Frames) {
            let what =
                "`requested_size` is missing although there is `frames`, so the viewer's totals become NaN";
            report.error(Rule::RequestedSize, place, what);
        }
        let shape = keys::shape_of(self.snapshot, block.shape);
        if shape.is_some_and(|shape| !keys::is_ordered(shape, schema::names(schema::BLOCK))) {
            let what =
                "the keys are not in PyTorch's order, which is address, size, requested_size, state, frames";
            report.pytorch(Rule::SegmentKeys, place, what);
        }
    }

    /// Rules 4, 9, 13 and 15 for the numbers of one block.
    fn sizes(&mut self, block: &Block, place: BlockPlace, is_paged: bool, report: &mut Report) {
        let facts = self.table.facts(block.shape);
        let counts = [(Field::Size, block.size), (Field::RequestedSize, block.requested_size)];
        if facts.has(Field::Address) {
            check_address("address", block.address, place, report);
        }
        for (field, count) in counts {
            if facts.has(field) {
                check_exact(schema::name_of(schema::BLOCK, field), count, place, report);
            }
        }
        if !facts.has(Field::Size) {
            return;
        }
        let (size, requested) = (block.size, block.requested_size);
        if size == 0 {
            report.error(Rule::BlockSizes, place, "`size` is 0, but a block cannot be empty");
        } else if is_paged && !size.is_multiple_of(ROUNDING_BYTES) {
            let what =
                format_args!("`size` is {size}, but the sizes of PyTorch's blocks are multiples of 512");
            report.pytorch(Rule::Granularity, place, what);
        }
        let is_active = block.state.is_some_and(BlockState::is_active);
        if is_active && facts.has(Field::RequestedSize) && requested > size {
            let what = format_args!("`requested_size` is {requested}, but the block's `size` is only {size}");
            report.error(Rule::RequestedSize, place, what);
        }
    }

    /// Rules 6 and 16: the stack of a block, which PyTorch 2.0 wrote in the latest use of its `history`.
    fn frames(&mut self, block: &Block, place: BlockPlace, frames: &mut Frames<'_>, report: &mut Report) {
        if self.table.facts(block.shape).has(Field::Frames) {
            frames.check(block.stack, place, report);
        } else {
            frames.check(block.stack, format_args!("{place}.history[0]"), report);
        }
    }

    /// Returns the sum of all sizes, if all can be read.
    fn sum(&mut self, segment: &Segment) -> Option<u64> {
        segment.blocks.iter().try_fold(0u64, |sum, block| {
            self.table.facts(block.shape).has(Field::Size).then(|| sum.saturating_add(block.size))
        })
    }

    /// Checks rule 10 (`E10`); only the first wrong address of a segment is reported.
    fn addresses(&mut self, segment: &Segment, place: SegmentPlace, report: &mut Report) {
        if !keys::has_field(self.snapshot, segment.shape, Field::Address) {
            return;
        }
        let mut expected = segment.address;
        for (index, block) in segment.blocks.iter().enumerate() {
            let facts = self.table.facts(block.shape);
            if !facts.has(Field::Size) {
                return;
            }
            if facts.has(Field::Address) && block.address != expected {
                let address = block.address;
                let what = "but the segment's address plus the sizes of the blocks before it is";
                let place = place.block(index);
                let what = format_args!("`address` is {address:#x}, {what} {expected:#x}");
                report.error(Rule::BlockAddresses, place, what);
                return;
            }
            expected = expected.saturating_add(block.size);
        }
    }

    /// Rule 15: free neighbours are one block.
    fn neighbours(&mut self, segment: &Segment, place: SegmentPlace, report: &mut Report) {
        let is_free = |block: &Block| block.state == Some(BlockState::Inactive);
        for (index, pair) in segment.blocks.windows(2).enumerate() {
            if is_free(&pair[0]) && is_free(&pair[1]) {
                let what = "this block and the one before it are both inactive; PyTorch merges such blocks";
                report.pytorch(Rule::Granularity, place.block(index + 1), what);
            }
        }
    }

    /// What rule 14 compares with the segment.
    fn sums(&mut self, segment: &Segment) -> Option<Sums> {
        if !keys::has_field(self.snapshot, segment.shape, Field::Blocks) {
            return None;
        }
        let mut sums = Sums { requested_size: Some(0), ..Sums::default() };
        for block in &segment.blocks {
            let facts = self.table.facts(block.shape);
            let state = block.state.filter(|_| facts.has(Field::Size))?;
            if !state.is_active() {
                continue;
            }
            sums.active_size = sums.active_size.saturating_add(block.size);
            if state == BlockState::ActiveAllocated {
                sums.allocated_size = sums.allocated_size.saturating_add(block.size);
            }
            let requested = sums.requested_size.filter(|_| facts.has(Field::RequestedSize));
            sums.requested_size = requested.map(|sum| sum.saturating_add(block.requested_size));
        }
        Some(sums)
    }
}
