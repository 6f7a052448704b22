//! The trace undone from its end, as the viewer's state history does it; what would make that throw is put right.
//!
//! An undone step that cannot be (invariants 25 to 27) meets a block or a
//! segment whose beginning the trace does not have: it is put in right behind
//! the step. Where it has one, the trace contradicts itself, and the step goes.

use rustc_hash::FxHashMap;

use super::{
    edits::{Edits, InsertionId},
    mold::Mold,
    trace_end::TraceEnd,
};
use crate::{
    event::{Action, Address},
    history::{DeviceRange, Live, Origin, Places, Ranges, Span},
    inventory::BlockState,
    snapshot::{StackIndex, TraceEntry},
};

const ALLOCATED: &str = "added the alloc that was left out, where its memory was free again";
const SEGMENT_ALLOCATED: &str = "added the segment_alloc that was left out";
const SEGMENT_FREED: &str = "added the segment_free that was left out, of a segment that blocks were in";
const LIFE: &str = "dropped events of blocks that contradict the segments";
const SEGMENT: &str = "dropped segment events that contradict the segments";

/// The size of a segment that was not recorded is a multiple of this.
const SEGMENT_BYTES: u64 = 2 << 20;

/// A block in use at one point.
#[derive(Clone, Copy, Debug)]
struct Held {
    end: Address,
    /// The entry of its alloc, if the trace has it.
    born: Option<usize>,
    /// The entry of its request to be freed, unless that is undone.
    requested: Option<usize>,
    /// The entry of its completion; `None` if it is in use at the end.
    completed: Option<usize>,
    size: u64,
    stack: Option<StackIndex>,
    /// Whether its free was requested, by the entry above or before the trace begins.
    is_over: bool,
}

/// What the forward reading knows of a completion: its life's other two entries.
#[derive(Clone, Copy, Debug, Default)]
struct Life {
    born: Option<usize>,
    requested: Option<usize>,
}

/// Undoes a trace whose addresses contradict nothing (see `lifecycle`).
pub(super) fn check(trace: &[TraceEntry], places: &Places, end: &TraceEnd<'_>, mold: &mut Mold<'_>) -> Edits {
    let births = Births::of(trace);
    let mut held = Live::new(places);
    for block in end.state.blocks() {
        let block = &block.block;
        let Life { born, requested } = births.open.get(&block.address).copied().unwrap_or_default();
        let end = block.address.saturating_add(block.size.max(1));
        let (size, stack) = (block.requested_size, block.stack);
        let is_over = block.state == Some(BlockState::ActivePendingFree);
        held.insert(block.address, Held { end, born, requested, completed: None, size, stack, is_over });
    }
    let edits = Edits::new(trace.len());
    let synthetic = FxHashMap::default();
    let mut rewind = Rewind { trace, mold, edits, births, ranges: end.ranges.clone(), held, synthetic };
    (0..trace.len()).rev().for_each(|index| rewind.undo(index));
    rewind.edits
}

/// Which entries belong to one life.
#[derive(Debug, Default)]
struct Births {
    /// By entry: the life that it completes.
    completed: Vec<Life>,
    /// The lives that do not end.
    open: FxHashMap<Address, Life>,
    /// The last `segment_alloc` of every address before an entry, by `segment_free`; and at the end.
    segments: FxHashMap<Address, usize>,
    segment_of_free: FxHashMap<usize, usize>,
}

impl Births {
    fn of(trace: &[TraceEntry]) -> Births {
        let mut births = Births { completed: vec![Life::default(); trace.len()], ..Births::default() };
        for (index, entry) in trace.iter().enumerate() {
            let address = entry.address;
            match entry.action {
                Some(Action::Alloc) => {
                    births.open.insert(address, Life { born: Some(index), requested: None });
                }
                Some(Action::FreeRequested) => {
                    births.open.entry(address).or_default().requested = Some(index);
                }
                Some(Action::FreeCompleted) => {
                    births.completed[index] = births.open.remove(&address).unwrap_or_default();
                }
                Some(Action::SegmentAlloc) => {
                    births.segments.insert(address, index);
                }
                Some(Action::SegmentFree) => {
                    if let Some(born) = births.segments.remove(&address) {
                        births.segment_of_free.insert(index, born);
                    }
                }
                _ => {}
            }
        }
        births
    }
}

struct Rewind<'a, 'b> {
    trace: &'a [TraceEntry],
    mold: &'a mut Mold<'b>,
    edits: Edits,
    births: Births,
    ranges: Ranges<DeviceRange>,
    held: Live<'a, Held>,
    /// The segments made here, by where they begin.
    synthetic: FxHashMap<Address, InsertionId>,
}

impl Rewind<'_, '_> {
    fn undo(&mut self, index: usize) {
        if self.edits.is_dropped(index) {
            return;
        }
        let entry = self.trace[index];
        match entry.action {
            Some(Action::Alloc) => {
                self.held.remove(entry.address);
            }
            Some(Action::FreeCompleted) => self.revive(index),
            Some(Action::SegmentAlloc) => self.undo_segment_alloc(index),
            Some(Action::SegmentMap) => self.undo_segment_map(index),
            Some(Action::SegmentFree | Action::SegmentUnmap) => self.give_back(index),
            _ => {}
        }
    }

    /// The last block in use that shares a byte with a range.
    fn held_in(&self, start: Address, end: Address) -> Option<(Address, Held)> {
        let (address, held) = self.held.last_below(start, end)?;
        (held.end > start && end > start).then_some((address, *held))
    }

    /// Makes room for what was in a range before the entry of that number: blocks
    /// without a beginning begin right behind it. False if one began before.
    fn clear(&mut self, start: Address, end: Address, index: usize) -> bool {
        let mut at = end;
        if self.held_in(start, end).is_none() {
            return true;
        }
        while let Some((address, held)) = self.held_in(start, at) {
            if held.born.is_some() || held.requested.is_some_and(|requested| requested < index) {
                return false;
            }
            at = address;
        }
        while let Some((address, held)) = self.held_in(start, end) {
            self.held.remove(address);
            let pattern = held.requested.or(held.completed).unwrap_or(index);
            let pattern = self.trace[pattern];
            let alloc = self.mold.entry(&pattern, Action::Alloc, address, held.size, held.stack);
            self.edits.after(index, alloc);
            self.edits.tell(ALLOCATED);
            // Whoever has a beginning needs a request before its end.
            if held.requested.is_none() && held.is_over {
                let request = self.mold.entry(&pattern, Action::FreeRequested, address, held.size, None);
                self.edits.before(held.completed.unwrap_or(self.trace.len()), request);
            }
        }
        true
    }

    /// A block that ended here was there before.
    fn revive(&mut self, index: usize) {
        let entry = self.trace[index];
        let end = entry.address.saturating_add(entry.size.max(1));
        let Life { born, requested } = self.births.completed[index];
        let completed = Some(index);
        let held = Held { end, born, requested, completed, size: entry.size, stack: None, is_over: true };
        if self.clear(entry.address, end, index) && self.is_inside(entry.address, end, index) {
            self.held.insert(entry.address, held);
            return;
        }
        for index in [Some(index), born, requested].into_iter().flatten() {
            self.edits.drop_entry(index);
            self.edits.tell(LIFE);
        }
    }

    /// Whether a range is in a segment, or fits into one that was not recorded.
    fn is_inside(&mut self, start: Address, end: Address, index: usize) -> bool {
        if self.ranges.covering(start, end).is_some() {
            return true;
        }
        let (mut from, mut until) = (
            Address(start.0 - start.0 % SEGMENT_BYTES),
            end.0.checked_next_multiple_of(SEGMENT_BYTES).map_or(end, Address),
        );
        while let Some((other, span)) = self.ranges.overlapping(from, until) {
            match self.synthetic.get(&other) {
                // One that was made here before grows: it has no end of its own yet.
                Some(id) if span.value.origin == Origin::Entry(usize::MAX) => {
                    return self.grow(other, span, *id, start, end);
                }
                _ if span.end <= start => from = span.end,
                _ if other >= end => until = other,
                _ => return false,
            }
        }
        let segment = self.mold.entry(&self.trace[index], Action::SegmentFree, from, until - from, None);
        let id = self.edits.after(index, segment);
        self.edits.tell(SEGMENT_FREED);
        self.synthetic.insert(from, id);
        let (stream, origin) = (self.trace[index].stream, Origin::Entry(usize::MAX));
        let value = DeviceRange { stream, is_expandable: false, origin };
        self.ranges.insert(from, Span { end: until, value });
        true
    }

    fn grow(
        &mut self,
        at: Address,
        span: Span<DeviceRange>,
        id: InsertionId,
        start: Address,
        end: Address,
    ) -> bool {
        let (from, until) = (at.min(start), span.end.max(end));
        self.ranges.remove(at);
        if self.ranges.overlapping(from, until).is_some() {
            self.ranges.insert(at, span);
            return false;
        }
        let segment = self.edits.inserted(id);
        (segment.address, segment.size) = (from, until - from);
        self.synthetic.remove(&at);
        self.synthetic.insert(from, id);
        self.ranges.insert(from, Span { end: until, ..span });
        true
    }

    fn drop_segment(&mut self, index: usize) {
        self.edits.drop_entry(index);
        self.edits.tell(SEGMENT);
    }

    fn undo_segment_alloc(&mut self, index: usize) {
        let (start, end) = range(&self.trace[index]);
        let is_there = self.ranges.get(start).is_some_and(|span| span.end == end);
        if is_there && self.clear(start, end, index) {
            self.ranges.remove(start);
        } else {
            self.drop_segment(index);
        }
    }

    fn undo_segment_map(&mut self, index: usize) {
        let (start, end) = range(&self.trace[index]);
        let is_there = end > start && self.ranges.covering(start, end).is_some();
        if is_there && self.clear(start, end, index) {
            self.ranges.carve(start, end);
        } else {
            self.drop_segment(index);
        }
    }

    /// Undoes `segment_free` and `segment_unmap`: the range was there before.
    fn give_back(&mut self, index: usize) {
        let (start, end) = range(&self.trace[index]);
        let is_expandable = self.trace[index].action == Some(Action::SegmentUnmap);
        while let Some((other, span)) = self.ranges.overlapping(start, end) {
            if !self.begin_segment(other, span, index) {
                return self.drop_segment(index);
            }
        }
        if end > start {
            let (stream, origin) = (self.trace[index].stream, Origin::Entry(index));
            self.ranges.insert(start, Span { end, value: DeviceRange { stream, is_expandable, origin } });
        } else {
            self.drop_segment(index);
        }
    }

    /// A segment whose beginning the trace does not have begins right behind an entry.
    fn begin_segment(&mut self, start: Address, span: Span<DeviceRange>, index: usize) -> bool {
        let is_born = match span.value.origin {
            Origin::Segment(_) => self.births.segments.contains_key(&start),
            Origin::Entry(entry) => self.births.segment_of_free.contains_key(&entry),
        };
        if is_born || span.value.is_expandable || !self.clear(start, span.end, index) {
            return false;
        }
        let size = span.end - start;
        let pattern = TraceEntry { stream: span.value.stream, ..self.trace[index] };
        let segment = self.mold.entry(&pattern, Action::SegmentAlloc, start, size, None);
        // In front of the allocs that `clear` has put there.
        self.edits.first_after(index, segment);
        self.edits.tell(SEGMENT_ALLOCATED);
        self.ranges.remove(start);
        true
    }
}

fn range(entry: &TraceEntry) -> (Address, Address) {
    (entry.address, entry.address.saturating_add(entry.size))
}
