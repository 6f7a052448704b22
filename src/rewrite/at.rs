//! The segments of a device as they were after an event, reconstructed from those at the end.
//!
//! What happened later is undone. A block that was freed meanwhile is known by
//! its free, with the bytes asked for: its rounding is taken for PyTorch's
//! multiple of 512, as far as there is room. Its stack is that of its alloc, if
//! the trace has it.
//!
//! Entries come oldest first and are not kept, although undoing begins with the
//! youngest: what an address held is decided by the first entries that come to
//! it. Segments, of which there are few, are kept and undone from their end.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use super::trace::Trace;
use crate::{
    event::{Action, Address, DeviceId},
    history::{
        DeviceRange, FinalBlock, FinalState, Joining, Origin, Ranges, active_blocks, insert_free, pool_id,
        undo_segment_event,
    },
    inventory::{BlockState, PoolKind},
    snapshot::{Block, Segment, Shape, ShapeId, Shapes, StackTable, TraceEntry},
    torch::{BLOCK_BYTES, LARGE_SEGMENT_BYTES, SMALL_SEGMENT_BYTES},
};

/// The segments of one device after its first `n_events` events.
///
/// `segments` are all of the file; the device's are taken.
pub(crate) fn segments_at(
    segments: &[Segment],
    device: DeviceId,
    trace: Trace<'_>,
    n_events: usize,
    shapes: &mut Shapes,
) -> Vec<Segment> {
    let own = || segments.iter().enumerate().filter(|(_, segment)| segment.device == device);
    if n_events >= trace.len() {
        return own().map(|(_, segment)| segment.clone()).collect();
    }
    let shape = shapes.intern(Shape::block());
    let mut undone = Undone::new(&FinalState::new(own()), shape);
    undone.undo(trace, n_events);
    undone.find_births(trace, n_events);
    undone.segments(segments, device, shapes)
}

/// A block in use; the size is the requested one where the rounding is not known.
#[derive(Clone, Copy, Debug)]
struct Held {
    block: Block,
    is_rounded: bool,
}

/// What an address held before the first entries that concern it.
#[derive(Clone, Copy, Debug)]
enum Before {
    /// A block in use, of which later entries show more; this is the last request to free it.
    Asked(TraceEntry),
    /// A block whose free was pending, or not requested yet.
    Held(TraceEntry, BlockState),
    /// Nothing.
    Free,
}

impl Before {
    /// The first entry of an address.
    fn first(entry: &TraceEntry) -> Before {
        match entry.action {
            Some(Action::FreeRequested) => Before::Asked(*entry),
            Some(Action::FreeCompleted) => Before::Held(*entry, BlockState::ActivePendingFree),
            _ => Before::Free,
        }
    }

    /// One that comes later.
    fn add(&mut self, entry: &TraceEntry) {
        let Before::Asked(asked) = *self else { return };
        *self = match entry.action {
            Some(Action::FreeRequested) => Before::Asked(*entry),
            Some(Action::FreeCompleted) => Before::Held(*entry, BlockState::ActiveAllocated),
            _ => Before::Held(asked, BlockState::ActiveAllocated),
        };
    }
}

struct Undone {
    ranges: Ranges<DeviceRange>,
    held: BTreeMap<Address, Held>,
    /// The segment events that were undone; ranges have their numbers.
    of_segments: Vec<TraceEntry>,
    /// The alloc or segment_alloc of what is not in the file's segments any more.
    births: FxHashMap<(bool, Address), Option<TraceEntry>>,
    block_shape: ShapeId,
}

impl Undone {
    fn new(state: &FinalState<'_>, block_shape: ShapeId) -> Undone {
        let held =
            |block: &FinalBlock<'_>| (block.block.address, Held { block: block.block, is_rounded: true });
        let mut ranges = Ranges::default();
        for (number, segment) in state.segments() {
            let value = DeviceRange {
                stream: segment.stream,
                is_expandable: segment.is_expandable,
                origin: Origin::Segment(number),
            };
            insert_free(&mut ranges, segment.address, segment.total_size, value, Joining::Apart);
        }
        let (of_segments, births) = (Vec::new(), FxHashMap::default());
        Undone { ranges, held: state.blocks().iter().map(held).collect(), of_segments, births, block_shape }
    }

    fn undo(&mut self, trace: Trace<'_>, n_events: usize) {
        let mut before: FxHashMap<Address, Before> = FxHashMap::default();
        let of_segments = &mut self.of_segments;
        trace.each(n_events..usize::MAX, |entry| match entry.action {
            Some(Action::Alloc | Action::FreeRequested | Action::FreeCompleted) => {
                let first = || Before::first(entry);
                before.entry(entry.address).and_modify(|before| before.add(entry)).or_insert_with(first);
            }
            Some(Action::SegmentAlloc | Action::SegmentFree | Action::SegmentMap | Action::SegmentUnmap) => {
                of_segments.push(*entry);
            }
            _ => {}
        });
        for (address, before) in before {
            match before {
                Before::Free => drop(self.held.remove(&address)),
                Before::Held(entry, state) => self.hold(&entry, state),
                Before::Asked(entry) => match self.held.get_mut(&address) {
                    Some(held) => held.block.state = Some(BlockState::ActiveAllocated),
                    None => self.hold(&entry, BlockState::ActiveAllocated),
                },
            }
        }
        (0..self.of_segments.len()).rev().for_each(|index| self.undo_segment(index));
    }

    fn undo_segment(&mut self, index: usize) {
        let entry = &self.of_segments[index];
        let given_back = DeviceRange {
            stream: entry.stream,
            is_expandable: entry.action == Some(Action::SegmentUnmap),
            origin: Origin::Entry(index),
        };
        // What the later entries rule out stays as it is.
        let _ = undo_segment_event(&mut self.ranges, entry, given_back, Joining::Joined);
    }

    fn hold(&mut self, entry: &TraceEntry, state: BlockState) {
        let block = Block {
            address: entry.address,
            size: entry.size,
            requested_size: entry.size,
            stack: Some(StackTable::EMPTY),
            shape: self.block_shape,
            state: Some(state),
        };
        self.held.insert(entry.address, Held { block, is_rounded: false });
    }

    /// Looks for the beginnings of what was gone at the end.
    fn find_births(&mut self, trace: Trace<'_>, n_events: usize) {
        let blocks = self.held.values().filter(|held| !held.is_rounded);
        self.births = blocks.map(|held| ((false, held.block.address), None)).collect();
        let ranges = self.ranges.iter().filter(|(_, span)| matches!(span.value.origin, Origin::Entry(_)));
        self.births.extend(ranges.map(|(start, _)| ((true, start), None)));
        if self.births.is_empty() {
            return;
        }
        trace.each(0..n_events, |entry| {
            let is_segment = match entry.action {
                Some(Action::Alloc) => false,
                Some(Action::SegmentAlloc | Action::SegmentMap) => true,
                _ => return,
            };
            if let Some(birth) = self.births.get_mut(&(is_segment, entry.address)) {
                *birth = Some(*entry);
            }
        });
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
                    let birth = self.births.get(&(true, start)).copied().flatten();
                    new_segment(&self.of_segments[index], birth.as_ref(), shapes)
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
        let inside: Vec<&Held> = self.held.range(start..end).map(|(_, held)| held).collect();
        let mut blocks = Vec::with_capacity(inside.len());
        for (nth, held) in inside.iter().enumerate() {
            let mut block = held.block;
            let room = inside.get(nth + 1).map_or(end, |next| next.block.address) - block.address;
            if !held.is_rounded {
                let rounded = block.size.max(1).checked_next_multiple_of(BLOCK_BYTES);
                block.size = rounded.unwrap_or(block.size);
                let birth = self.births.get(&(false, block.address)).copied().flatten();
                block.stack = birth.and_then(|birth| birth.stack).or(block.stack);
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
        let free = |address, size| Block {
            address,
            size,
            requested_size: 0,
            stack: Some(StackTable::EMPTY),
            shape: self.block_shape,
            state: Some(BlockState::Inactive),
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

/// Whether exactly these of a segment's blocks are in use.
fn holds(segment: &Segment, blocks: &[Block]) -> bool {
    active_blocks(segment).map(|block| block.block).eq(blocks.iter().copied())
}

/// Puts a segment's sums right (docs/snapshot-format.md 1.2).
pub(super) fn count(segment: &mut Segment) {
    let sum = |of: fn(&Block) -> u64, is: fn(BlockState) -> bool| {
        let counted = segment.blocks.iter().filter(|block| block.state.is_some_and(is));
        counted.fold(0u64, |sum, block| sum.saturating_add(of(block)))
    };
    let allocated = sum(|block| block.size, |state| state == BlockState::ActiveAllocated);
    let active = sum(|block| block.size, BlockState::is_active);
    let requested = sum(|block| block.requested_size, BlockState::is_active);
    (segment.allocated_size, segment.active_size, segment.requested_size) = (allocated, active, requested);
}

/// A segment of which only its end is known, and perhaps its beginning.
fn new_segment(freed: &TraceEntry, birth: Option<&TraceEntry>, shapes: &mut Shapes) -> Segment {
    let is_expandable = freed.action == Some(Action::SegmentUnmap);
    let is_small = match is_expandable {
        false => freed.size == SMALL_SEGMENT_BYTES,
        true => !freed.size.is_multiple_of(LARGE_SEGMENT_BYTES),
    };
    let pool = pool_id(shapes.get(freed.shape)).unwrap_or_default();
    let stack = birth.and_then(|birth| birth.stack).or(Some(StackTable::EMPTY));
    Segment {
        stream: freed.stream,
        kind: Some(if is_small { PoolKind::Small } else { PoolKind::Large }),
        pool,
        is_expandable,
        stack,
        shape: shapes.intern(Shape::segment(stack != Some(StackTable::EMPTY))),
        ..Segment::default()
    }
}
