//! Blocks: rules 4, 8, 9, 10, 12, 13 and 15.
//!
//! PyTorch 2.0 wrote neither `frames` nor `requested_size`, and readers still
//! take its blocks, so that rule 13 asks for `requested_size` only beside `frames`.

use super::{
    frames::Frames,
    keys::{self, Table},
    memory::ActiveBlock,
    place::{BlockPlace, SegmentPlace},
    values::MAX_EXACT,
};
use crate::{
    finding::{Report, Rule},
    inventory::BlockState,
    snapshot::{Block, Field, Segment, Snapshot, schema},
};

/// The default rounding of requests.
const ROUNDING_BYTES: u64 = 512;

/// What PyTorch writes and readers can do without.
const CUSTOMARY: [Field; 2] = [Field::Address, Field::Frames];

/// What the blocks of one segment add up to; `None` where a block cannot be read.
#[derive(Debug, Default)]
pub(super) struct Contents {
    pub(super) allocated_size: Option<u64>,
    pub(super) active_size: Option<u64>,
    pub(super) requested_size: Option<u64>,
    pub(super) active: Vec<ActiveBlock>,
    /// Whether every block has a size and a state.
    pub(super) is_readable: bool,
}

/// Checks blocks, a segment's at a time.
#[derive(Debug)]
pub(super) struct Check<'a> {
    snapshot: &'a Snapshot,
    table: Table<'a>,
}

impl<'a> Check<'a> {
    pub(super) fn new(snapshot: &'a Snapshot) -> Check<'a> {
        Check { snapshot, table: Table::new(snapshot, schema::BLOCK) }
    }

    pub(super) fn check(
        &mut self,
        segment: &Segment,
        place: SegmentPlace,
        frames: &mut Frames<'_>,
        report: &mut Report,
    ) -> Contents {
        for (index, block) in segment.blocks.iter().enumerate() {
            self.keys(block, place.block(index), report);
            self.sizes(block, place.block(index), !place.is_host, report);
            frames.check(block.stack, place.block(index), report);
        }
        let sum = self.sum(segment);
        let has_total =
            [Field::TotalSize, Field::Blocks].iter().all(|f| has_field(self.snapshot, segment, *f));
        if let Some(sum) = sum.filter(|sum| *sum != segment.total_size && has_total) {
            let total = segment.total_size;
            let what = "the tool `stats` asserts that they are equal, the viewer draws past the end";
            report.error(
                Rule::BlockSizes,
                place,
                format_args!("its blocks make {sum} bytes, its total_size is {total}; {what}"),
            );
        }
        self.addresses(segment, place, report);
        self.neighbours(segment, place, report);
        // Sums that agree with the segment are worth more than single addresses.
        self.contents(segment, place, sum == Some(segment.total_size))
    }

    /// Rules 4 and 8, and what of 9, 10, 12 and 13 is a missing key.
    fn keys(&mut self, block: &Block, place: BlockPlace, report: &mut Report) {
        let facts = self.table.facts(block.shape);
        for issue in &facts.issues {
            report.add(issue.rule, issue.severity, place, &issue.what);
        }
        if facts.lacks(Field::Size) {
            report.error(Rule::BlockSizes, place, "no `size`: viewers and tools need it");
        }
        if facts.lacks(Field::State) {
            report.error(Rule::BlockState, place, "no `state`: viewers and tools need it");
        }
        if let Some(missing) = keys::missing(schema::BLOCK, facts, &CUSTOMARY) {
            report.pytorch(
                Rule::SegmentKeys,
                place,
                format_args!("no {missing}; PyTorch since 2.1 writes it"),
            );
        }
        if facts.lacks(Field::RequestedSize) && facts.has(Field::Frames) {
            let what = "`frames` without `requested_size`: the viewer's totals become NaN";
            report.error(Rule::RequestedSize, place, what);
        }
        let shape = keys::shape_of(self.snapshot, block.shape);
        if shape.is_some_and(|shape| !keys::is_ordered(shape, schema::names(schema::BLOCK))) {
            report.pytorch(
                Rule::SegmentKeys,
                place,
                "PyTorch's order is address, size, requested_size, state, frames",
            );
        }
    }

    /// Rules 4, 9, 13 and 15 for the numbers of one block.
    fn sizes(&mut self, block: &Block, place: BlockPlace, is_paged: bool, report: &mut Report) {
        let facts = self.table.facts(block.shape);
        let counts = [
            (Field::Address, block.address.0),
            (Field::Size, block.size),
            (Field::RequestedSize, block.requested_size),
        ];
        for (field, count) in counts {
            if facts.has(field) && count > MAX_EXACT {
                let name = schema::name_of(schema::BLOCK, field);
                report.error(
                    Rule::Integers,
                    place,
                    format_args!("`{name}` is {count}, beyond 2^53: viewers round it"),
                );
            }
        }
        if !facts.has(Field::Size) {
            return;
        }
        let (size, requested) = (block.size, block.requested_size);
        if size == 0 {
            report.error(Rule::BlockSizes, place, "a block of 0 bytes");
        } else if is_paged && !size.is_multiple_of(ROUNDING_BYTES) {
            report.pytorch(
                Rule::Granularity,
                place,
                format_args!("{size} bytes; PyTorch's blocks are multiples of 512"),
            );
        }
        let is_active = block.state.is_some_and(BlockState::is_active);
        if is_active && facts.has(Field::RequestedSize) && requested > size {
            report.error(
                Rule::RequestedSize,
                place,
                format_args!("requested {requested} bytes of a block of {size}"),
            );
        }
    }

    /// The sum of all sizes, if all can be read.
    fn sum(&mut self, segment: &Segment) -> Option<u64> {
        segment.blocks.iter().try_fold(0u64, |sum, block| {
            self.table.facts(block.shape).has(Field::Size).then(|| sum.saturating_add(block.size))
        })
    }

    /// Checks rule 10 (`E10`); only the first wrong address of a segment is reported.
    fn addresses(&mut self, segment: &Segment, place: SegmentPlace, report: &mut Report) {
        if !has_field(self.snapshot, segment, Field::Address) {
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
                let what = "the segment's address and the sizes before it make";
                let place = place.block(index);
                report.error(
                    Rule::BlockAddresses,
                    place,
                    format_args!("at {address:#x}, but {what} {expected:#x}"),
                );
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
                let what = "inactive like the block before it; PyTorch merges the two";
                report.pytorch(Rule::Granularity, place.block(index + 1), what);
            }
        }
    }

    fn contents(&mut self, segment: &Segment, place: SegmentPlace, sums_agree: bool) -> Contents {
        let has_blocks = has_field(self.snapshot, segment, Field::Blocks);
        let mut contents = Contents { is_readable: has_blocks, ..Contents::default() };
        let (mut allocated, mut active, mut requested) = (0u64, 0u64, Some(0u64));
        let mut running = segment.address;
        for (index, block) in segment.blocks.iter().enumerate() {
            let facts = self.table.facts(block.shape);
            let Some(state) = block.state.filter(|_| facts.has(Field::Size)) else {
                contents.is_readable = false;
                continue;
            };
            let address = if sums_agree || !facts.has(Field::Address) { running } else { block.address };
            running = running.saturating_add(block.size);
            if !state.is_active() {
                continue;
            }
            let requested_size = facts.has(Field::RequestedSize).then_some(block.requested_size);
            active = active.saturating_add(block.size);
            if state == BlockState::ActiveAllocated {
                allocated = allocated.saturating_add(block.size);
            }
            requested = requested.zip(requested_size).map(|(sum, size)| sum.saturating_add(size));
            let (place, stream) = (place.block(index), segment.stream);
            let size = block.size;
            contents.active.push(ActiveBlock { place, address, size, requested_size, state, stream });
        }
        if contents.is_readable {
            contents.allocated_size = Some(allocated);
            contents.active_size = Some(active);
            contents.requested_size = requested;
        }
        contents
    }
}

/// Whether a segment has a key with a value of its type.
fn has_field(snapshot: &Snapshot, segment: &Segment, field: Field) -> bool {
    keys::shape_of(snapshot, segment.shape).is_some_and(|shape| shape.has(field))
}
