//! Reconstructs the segments of a device as they were after an event from those at the end.
//!
//! The later events are undone. A block that they freed is known from its free, with the requested bytes: its size is
//! taken to be the next multiple of 512, as far as there is room. Its stack is that of its alloc, or if the trace lacks
//! that, the one of its free where frees have the stacks of allocations.
//!
//! Entries come oldest first and are not kept, although undoing begins with the youngest: the first later
//! life of an address decides what the address held. Segment events are few; they are kept and undone
//! from their end.

use std::collections::BTreeMap;

use super::trace::Trace;
use crate::{
    history::{
        DeviceRange, FinalState, Forward, FreeStacks, Joining, LifeIndex, Origin, Ranges, State, Step,
        active_blocks, final_ranges, pool_id, undo_segment_event,
    },
    model::{Block, Segment, Shape, ShapeId, Shapes, StackIndex, StackTable, TraceEntry},
    words::{
        Action, Address, BlockState, DeviceId, PoolKind, SeededMap,
        torch::{BLOCK_BYTES, LARGE_SEGMENT_BYTES, SMALL_SEGMENT_BYTES},
    },
};

/// The segments of one device after its first `n_events` events.
///
/// `segments` are those of the file, of all devices; those of the device have the places `own`. `frees_as_allocated` if the file says
/// that frees have the stacks of their allocations.
pub(crate) fn segments_at(
    segments: &[Segment],
    own: &[usize],
    (device, frees_as_allocated): (DeviceId, bool),
    trace: Trace<'_>,
    n_events: usize,
    shapes: &mut Shapes,
) -> Vec<Segment> {
    let own = || own.iter().map(|place| (*place, &segments[*place]));
    if n_events >= trace.len() {
        return own().map(|(_, segment)| segment.clone()).collect();
    }
    let shape = shapes.intern(Shape::block());
    let mut past = PastState::at_the_end(&FinalState::new(own()), shape);
    past.undo(trace, n_events);
    past.find_stacks(trace, n_events);
    past.find_stacks_of_frees(trace, frees_as_allocated);
    past.segments(segments, device, shapes)
}

/// A block in use; its size is the requested one where the rounding is not known.
#[derive(Clone, Copy, Debug)]
struct PastBlock {
    block: Block,
    is_rounded: bool,
}

/// A block that was in use before the undone entries.
#[derive(Clone, Copy, Debug)]
struct PriorBlock {
    life: LifeIndex,
    bytes: u64,
    state: BlockState,
    /// The stack of its first entry.
    stack: Option<StackIndex>,
}

/// The state of a device, at first at the end of its trace.
struct PastState {
    ranges: Ranges<DeviceRange>,
    blocks: BTreeMap<Address, PastBlock>,
    /// The segment events that were undone; ranges refer to them by number.
    segment_events: Vec<TraceEntry>,
    /// The stacks of the blocks and of the segments that are not in the file, by address.
    block_stacks: SeededMap<Address, Option<StackIndex>>,
    /// By address, the stacks of the frees that were undone.
    free_stacks: SeededMap<Address, StackIndex>,
    segment_stacks: SeededMap<Address, Option<StackIndex>>,
    block_shape: ShapeId,
}

impl PastState {
    fn at_the_end(state: &FinalState<'_>, block_shape: ShapeId) -> PastState {
        let blocks = state.blocks().iter().map(|block| block.block);
        PastState {
            ranges: final_ranges(state.segments(), Joining::Apart),
            blocks: blocks.map(|block| (block.address, PastBlock { block, is_rounded: true })).collect(),
            segment_events: Vec::new(),
            block_stacks: SeededMap::default(),
            free_stacks: SeededMap::default(),
            segment_stacks: SeededMap::default(),
            block_shape,
        }
    }

    /// Undoes all but the first `n_events` entries.
    fn undo(&mut self, trace: Trace<'_>, n_events: usize) {
        let mut walk = Forward::default();
        let mut before: SeededMap<Address, PriorBlock> = SeededMap::default();
        trace.each(n_events..usize::MAX, |entry| {
            let (life, state) = match walk.step(entry) {
                Step::Request { life, is_prior: true, .. } => (life, BlockState::ActiveAllocated),
                Step::End { life, is_prior: true, .. } => (life, BlockState::ActivePendingFree),
                Step::Other if is_segment_event(entry) => return self.segment_events.push(*entry),
                _ => return,
            };
            let prior = PriorBlock { life, bytes: entry.size, state, stack: entry.stack };
            before.insert(entry.address, prior);
        });
        // A block in use at the end existed before if no entry is at its address, or only its request.
        let is_pending = |address: Address, prior: &PriorBlock| {
            walk.spot(address).is_some_and(|spot| spot.life == prior.life && spot.state == State::Pending)
        };
        self.blocks.retain(|address, _| match before.get(address) {
            Some(prior) => is_pending(*address, prior),
            None => walk.spot(*address).is_none(),
        });
        for (address, PriorBlock { bytes, state, stack, .. }) in before {
            let block = self.block(address, bytes, state);
            if let Some(stack) = stack.filter(|stack| *stack != StackTable::EMPTY) {
                self.free_stacks.insert(address, stack);
            }
            let past = self.blocks.entry(address).or_insert(PastBlock { block, is_rounded: false });
            past.block.state = Some(state);
        }
        (0..self.segment_events.len()).rev().for_each(|index| self.undo_segment_event(index));
    }

    fn undo_segment_event(&mut self, index: usize) {
        let entry = &self.segment_events[index];
        let given_back = DeviceRange::from_entry(entry, index);
        // An event that later ones contradict changes nothing.
        let _ = undo_segment_event(&mut self.ranges, entry, given_back, Joining::Joined);
    }

    /// A block of which only these figures are known.
    fn block(&self, address: Address, bytes: u64, state: BlockState) -> Block {
        Block {
            address,
            size: bytes,
            requested_size: bytes,
            stack: Some(StackTable::EMPTY),
            shape: self.block_shape,
            state: Some(state),
        }
    }

    /// Looks for the stacks of the blocks and segments that are not in the file.
    fn find_stacks(&mut self, trace: Trace<'_>, n_events: usize) {
        let blocks = self.blocks.iter().filter(|(_, past)| !past.is_rounded);
        self.block_stacks = blocks.map(|(address, _)| (*address, None)).collect();
        let ranges = self.ranges.iter().filter(|(_, span)| matches!(span.value.origin, Origin::Entry(_)));
        self.segment_stacks = ranges.map(|(start, _)| (start, None)).collect();
        if self.block_stacks.is_empty() && self.segment_stacks.is_empty() {
            return;
        }
        trace.each(0..n_events, |entry| {
            let stack = match entry.action {
                Some(Action::Alloc) => self.block_stacks.get_mut(&entry.address),
                Some(Action::SegmentAlloc | Action::SegmentMap) => {
                    self.segment_stacks.get_mut(&entry.address)
                }
                _ => None,
            };
            if let Some(stack) = stack {
                *stack = entry.stack;
            }
        });
    }

    /// Gives the blocks without an alloc the stacks of their frees, if frees have the stacks of allocations.
    fn find_stacks_of_frees(&mut self, trace: Trace<'_>, frees_as_allocated: bool) {
        let PastState { block_stacks, free_stacks, .. } = self;
        let is_nameless = |stack: &Option<StackIndex>| stack.is_none_or(|stack| stack == StackTable::EMPTY);
        let nameless = block_stacks.iter_mut().filter(|(_, stack)| is_nameless(stack));
        let mut named: Vec<(&mut Option<StackIndex>, StackIndex)> =
            nameless.filter_map(|(address, stack)| Some((stack, *free_stacks.get(address)?))).collect();
        if !named.is_empty() && (frees_as_allocated || has_stacks_of_allocations(trace)) {
            named.iter_mut().for_each(|(stack, of_free)| **stack = Some(*of_free));
        }
    }

    fn segments(mut self, segments: &[Segment], device: DeviceId, shapes: &mut Shapes) -> Vec<Segment> {
        let mut out = Vec::new();
        for (start, span) in std::mem::take(&mut self.ranges).iter() {
            let blocks = self.blocks(start, span.end);
            if let Origin::Segment(number) = span.value.origin {
                let original = &segments[number];
                if original.address == start
                    && original.total_size == span.end - start
                    && holds(original, &blocks)
                {
                    out.push(original.clone());
                    continue;
                }
            }
            let pattern = match span.value.origin {
                Origin::Segment(number) => segments[number].clone(),
                Origin::Entry(index) => {
                    let stack = self.segment_stacks.get(&start).copied().flatten();
                    new_segment(&self.segment_events[index], stack, shapes)
                }
            };
            let mut segment = Segment { device, address: start, total_size: span.end - start, ..pattern };
            segment.blocks = self.fill(start, span.end, blocks);
            count(&mut segment);
            out.push(segment);
        }
        out
    }

    /// The blocks in use in a range, with their stacks and a rounding that fits.
    fn blocks(&self, start: Address, end: Address) -> Vec<Block> {
        let inside: Vec<&PastBlock> = self.blocks.range(start..end).map(|(_, past)| past).collect();
        let mut blocks = Vec::with_capacity(inside.len());
        for (nth, past) in inside.iter().enumerate() {
            let mut block = past.block;
            let room = inside.get(nth + 1).map_or(end, |next| next.block.address) - block.address;
            if !past.is_rounded {
                let rounded = block.size.max(1).checked_next_multiple_of(BLOCK_BYTES);
                block.size = rounded.unwrap_or(block.size);
                block.stack = self.block_stacks.get(&block.address).copied().flatten().or(block.stack);
            }
            block.size = block.size.min(room);
            block.requested_size = block.requested_size.min(block.size);
            blocks.push(block);
        }
        blocks
    }

    /// The blocks with free ones between them.
    fn fill(&self, start: Address, end: Address, blocks: Vec<Block>) -> Vec<Block> {
        let mut filled = Vec::with_capacity(2 * blocks.len() + 1);
        let mut at = start;
        let free = |address, size| {
            let block = self.block(address, size, BlockState::Inactive);
            Block { requested_size: 0, ..block }
        };
        for block in blocks {
            if block.address > at {
                filled.push(free(at, block.address - at));
            }
            at = block.address.offset(block.size);
            filled.push(block);
        }
        if at < end {
            filled.push(free(at, end - at));
        }
        filled
    }
}

/// Returns whether the frees of a trace have the stacks of their allocations.
fn has_stacks_of_allocations(trace: Trace<'_>) -> bool {
    let mut found = FreeStacks::default();
    let mut walk = Forward::default();
    let mut allocs: SeededMap<LifeIndex, Option<StackIndex>> = SeededMap::default();
    trace.each(0..usize::MAX, |entry| match walk.step(entry) {
        Step::Begin { life, .. } => drop(allocs.insert(life, entry.stack)),
        Step::Request { life, is_prior: false, .. } => {
            if let Some(stack) = allocs.remove(&life) {
                found.compare(stack, entry.stack);
            }
        }
        _ => {}
    });
    found.are_of_allocations()
}

fn is_segment_event(entry: &TraceEntry) -> bool {
    use Action::{SegmentAlloc, SegmentFree, SegmentMap, SegmentUnmap};
    matches!(entry.action, Some(SegmentAlloc | SegmentFree | SegmentMap | SegmentUnmap))
}

/// Whether exactly these of a segment's blocks are in use.
fn holds(segment: &Segment, blocks: &[Block]) -> bool {
    active_blocks(segment).map(|block| block.block).eq(blocks.iter().copied())
}

/// Computes a segment's sums from its blocks (`docs/snapshot-format.md` 1.2).
pub(crate) fn count(segment: &mut Segment) {
    let sum = |of: fn(&Block) -> u64, is: fn(BlockState) -> bool| {
        let counted = segment.blocks.iter().filter(|block| block.state.is_some_and(is));
        counted.fold(0u64, |sum, block| sum.saturating_add(of(block)))
    };
    let allocated = sum(|block| block.size, |state| state == BlockState::ActiveAllocated);
    let active = sum(|block| block.size, BlockState::is_active);
    let requested = sum(|block| block.requested_size, BlockState::is_active);
    (segment.allocated_size, segment.active_size, segment.requested_size) = (allocated, active, requested);
}

/// Returns a segment that the file does not have: the one that an event released.
fn new_segment(freed: &TraceEntry, stack: Option<StackIndex>, shapes: &mut Shapes) -> Segment {
    let is_expandable = freed.action == Some(Action::SegmentUnmap);
    let is_small = match is_expandable {
        false => freed.size == SMALL_SEGMENT_BYTES,
        true => !freed.size.is_multiple_of(LARGE_SEGMENT_BYTES),
    };
    let stack = stack.unwrap_or(StackTable::EMPTY);
    Segment {
        stream: freed.stream,
        kind: Some(if is_small { PoolKind::Small } else { PoolKind::Large }),
        pool: pool_id(shapes.get(freed.shape)).unwrap_or_default(),
        is_expandable,
        stack: Some(stack),
        shape: shapes.intern(Shape::segment(stack != StackTable::EMPTY)),
        ..Segment::default()
    }
}
