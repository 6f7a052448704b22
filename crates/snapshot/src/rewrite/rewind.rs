//! Undoes a trace from its end, as the viewer's state history does, and repairs the steps at which that throws.
//!
//! An entry that cannot be undone (invariants 25 to 27) conflicts with a block or a segment that exists later. If the
//! trace does not have its start, the start is added directly after the entry. Otherwise the trace contradicts itself,
//! and the entry is dropped.

use std::collections::BTreeMap;

use super::{
    edits::{Edits, InsertionId},
    entry_template::EntryTemplate,
    trace_end::TraceEnd,
};
use crate::{
    history::{
        Contradiction, DeviceRange, Forward, Joining, LifeIndex, Live, Obstacle, Origin, Places, Ranges,
        Span, State, Step, segment_obstacle, undo_segment_event,
    },
    model::{StackIndex, TraceEntry},
    words::{Action, Address, BlockState, SeededSet, torch::DRIVER_PAGE_BYTES},
};

const ALLOCATED: &str = "added the missing alloc where the memory of the block was free again";
const SEGMENT_ALLOCATED: &str = "added the missing segment_alloc";
const SEGMENT_FREED: &str = "added the missing segment_free of a segment that contained blocks";
const LIFE: &str = "dropped block events that contradict the segments";
const SEGMENT: &str = "dropped segment events that contradict the segments";

/// A block in use at one point.
#[derive(Clone, Copy, Debug)]
struct LiveBlock {
    entries: LifeEntries,
    /// The entry of its completion; `None` if it is in use at the end.
    completed: Option<usize>,
    size: u64,
    stack: Option<StackIndex>,
    /// Whether its free was requested, by an entry or before the trace starts.
    is_requested: bool,
}

/// The entries of a life before its completion, if the trace has them.
#[derive(Clone, Copy, Debug, Default)]
struct LifeEntries {
    alloc: Option<usize>,
    requested: Option<usize>,
}

impl LifeEntries {
    /// A life whose alloc is not in the trace.
    fn requested_by(entry: usize) -> LifeEntries {
        LifeEntries { alloc: None, requested: Some(entry) }
    }
}

/// Undoes a trace in which no entry contradicts an earlier one of its address (see `lifecycle`).
pub(super) fn check(
    trace: &[TraceEntry],
    places: &Places,
    end: &TraceEnd<'_>,
    template: &mut EntryTemplate<'_>,
) -> Edits {
    let pairs = Pairs::new(trace);
    let mut live = Live::new(places);
    for block in end.state.blocks() {
        let block = &block.block;
        let entries = pairs.open_life(block.address);
        let end = block.address.saturating_add(block.size.max(1));
        let (size, stack) = (block.requested_size, block.stack);
        let is_requested = block.state == Some(BlockState::ActivePendingFree);
        let value = LiveBlock { entries, completed: None, size, stack, is_requested };
        live.insert(block.address, Span { end, value });
    }
    let edits = Edits::new(trace.len());
    let added = BTreeMap::new();
    let mut rewind = Rewind { trace, template, edits, pairs, ranges: end.ranges.clone(), live, added };
    (0..trace.len()).rev().for_each(|index| rewind.undo(index));
    rewind.edits
}

/// Which entries belong to one life, or to one segment.
#[derive(Debug)]
struct Pairs {
    walk: Forward,
    /// By the numbers that `walk` gives them.
    lives: Vec<LifeEntries>,
    /// By entry: the life that it completes; [`LifeIndex::MAX`] for other entries.
    completed: Vec<LifeIndex>,
    /// Where segments begin whose `segment_alloc` is in the trace and which are not freed in it.
    open_segments: SeededSet<Address>,
    /// The entries of `segment_free` whose `segment_alloc` is in the trace.
    paired_frees: SeededSet<usize>,
}

impl Pairs {
    fn new(trace: &[TraceEntry]) -> Pairs {
        let mut pairs = Pairs {
            walk: Forward::default(),
            lives: Vec::new(),
            completed: vec![LifeIndex::MAX; trace.len()],
            open_segments: SeededSet::default(),
            paired_frees: SeededSet::default(),
        };
        trace.iter().enumerate().for_each(|(index, entry)| pairs.step(index, entry));
        pairs
    }

    fn step(&mut self, index: usize, entry: &TraceEntry) {
        match self.walk.step(entry) {
            Step::Begin { .. } => self.lives.push(LifeEntries { alloc: Some(index), requested: None }),
            Step::Request { is_prior: true, .. } => self.lives.push(LifeEntries::requested_by(index)),
            Step::Contradiction(Contradiction::RequestOfFree) => {
                // `lifecycle` leaves its alloc to this walk.
                self.walk.begin_requested(entry);
                self.lives.push(LifeEntries::requested_by(index));
            }
            Step::Request { life, .. } => self.lives[life as usize].requested = Some(index),
            Step::End { life, is_prior, .. } => {
                if is_prior {
                    self.lives.push(LifeEntries::default());
                }
                self.completed[index] = life;
            }
            Step::Contradiction(_) | Step::Other => {}
        }
        match entry.action {
            Some(Action::SegmentAlloc) => drop(self.open_segments.insert(entry.address)),
            Some(Action::SegmentFree) if self.open_segments.remove(&entry.address) => {
                self.paired_frees.insert(index);
            }
            _ => {}
        }
    }

    /// The entries of the life that is not completed at an address.
    fn open_life(&self, address: Address) -> LifeEntries {
        let open = self.walk.spot(address).filter(|spot| spot.state != State::Free);
        open.map(|spot| self.lives[spot.life as usize]).unwrap_or_default()
    }

    /// The entries of the life that an entry completes.
    fn completed_life(&self, index: usize) -> LifeEntries {
        self.lives.get(self.completed[index] as usize).copied().unwrap_or_default()
    }
}

struct Rewind<'a, 'b> {
    trace: &'a [TraceEntry],
    template: &'a mut EntryTemplate<'b>,
    edits: Edits,
    pairs: Pairs,
    ranges: Ranges<DeviceRange>,
    live: Live<'a, Span<LiveBlock>>,
    /// The segments added here, by start address.
    added: BTreeMap<Address, InsertionId>,
}

impl Rewind<'_, '_> {
    fn undo(&mut self, index: usize) {
        if self.edits.is_dropped(index) {
            return;
        }
        let entry = &self.trace[index];
        match entry.action {
            Some(Action::Alloc) => drop(self.live.remove(entry.address)),
            Some(Action::FreeCompleted) => self.undo_completion(index),
            Some(Action::SegmentAlloc | Action::SegmentMap | Action::SegmentFree | Action::SegmentUnmap) => {
                self.undo_segment(index)
            }
            _ => {}
        }
    }

    /// Makes room for what was in a range before an entry: blocks that the trace does not allocate are allocated
    /// directly after it. Returns whether there are no others.
    fn clear(&mut self, start: Address, end: Address, index: usize) -> bool {
        let mut at = end;
        while let Some((address, block)) = self.live.overlapping(start, at) {
            let LifeEntries { alloc, requested } = block.value.entries;
            if alloc.is_some() || requested.is_some_and(|requested| requested < index) {
                return false;
            }
            at = address;
        }
        while let Some((address, Span { value: block, .. })) = self.live.overlapping(start, end) {
            self.live.remove(address);
            let requested = block.entries.requested;
            let pattern = self.trace[requested.or(block.completed).unwrap_or(index)];
            let alloc = self.template.entry(&pattern, Action::Alloc, address, block.size, block.stack);
            self.edits.after(index, alloc);
            self.edits.count(ALLOCATED);
            // A life with an alloc needs a request before its end.
            if requested.is_none() && block.is_requested {
                let request = self.template.entry(&pattern, Action::FreeRequested, address, block.size, None);
                self.edits.before(block.completed.unwrap_or(self.trace.len()), request);
            }
        }
        true
    }

    /// Undoes `free_completed`: the block existed before.
    fn undo_completion(&mut self, index: usize) {
        let entry = self.trace[index];
        let (_, end) = entry.span();
        let entries = self.pairs.completed_life(index);
        if self.clear(entry.address, end, index) && self.is_inside(entry.address, end, index) {
            let (completed, size) = (Some(index), entry.size);
            let value = LiveBlock { entries, completed, size, stack: None, is_requested: true };
            self.live.insert(entry.address, Span { end, value });
            return;
        }
        for index in [Some(index), entries.alloc, entries.requested].into_iter().flatten() {
            self.edits.drop_entry(index);
            self.edits.count(LIFE);
        }
    }

    /// Whether a range is in a segment, or fits into one that was not recorded.
    fn is_inside(&mut self, start: Address, end: Address, index: usize) -> bool {
        if self.ranges.covering(start, end).is_some() {
            return true;
        }
        let (mut from, mut until) = (
            Address(start.0 - start.0 % DRIVER_PAGE_BYTES),
            end.0.checked_next_multiple_of(DRIVER_PAGE_BYTES).map_or(end, Address),
        );
        // A segment that was added earlier grows: its alloc is not added yet. The last one is tried first.
        if let Some((other, span, id)) = self.last_added(end, until) {
            return self.grow(other, span, id, start, end);
        }
        if let Some((next, _)) = self.ranges.first_beginning_in(end, until) {
            until = next;
        }
        if let Some((other, span)) = self.ranges.overlapping(from, end) {
            match self.added(other) {
                Some((span, id)) => return self.grow(other, span, id, start, end),
                None if span.end <= start => from = span.end,
                None => return false,
            }
        }
        let segment = self.template.entry(&self.trace[index], Action::SegmentFree, from, until - from, None);
        let id = self.edits.after(index, segment);
        self.edits.count(SEGMENT_FREED);
        self.added.insert(from, id);
        let (stream, origin) = (self.trace[index].stream, Origin::Entry(usize::MAX));
        let value = DeviceRange { stream, is_expandable: false, origin };
        self.ranges.insert(from, Span { end: until, value });
        true
    }

    /// Returns the segment that was added here and begins at an address.
    fn added(&self, start: Address) -> Option<(Span<DeviceRange>, InsertionId)> {
        let id = *self.added.get(&start)?;
        let span = self.ranges.get(start).filter(|span| span.value.origin == Origin::Entry(usize::MAX))?;
        Some((span, id))
    }

    /// Returns the last of the segments added here that begin in a range.
    fn last_added(
        &mut self,
        start: Address,
        end: Address,
    ) -> Option<(Address, Span<DeviceRange>, InsertionId)> {
        loop {
            let (other, _) = self.added.range(start..end.max(start)).next_back()?;
            let other = *other;
            if let Some((span, id)) = self.added(other) {
                return Some((other, span, id));
            }
            // It starts directly after a later entry.
            self.added.remove(&other);
        }
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
        self.added.remove(&at);
        self.added.insert(from, id);
        self.ranges.insert(from, Span { end: until, ..span });
        true
    }

    /// Undoes a segment event, or drops it if what is left of the trace rules it out.
    fn undo_segment(&mut self, index: usize) {
        let entry = self.trace[index];
        let given_back = DeviceRange::from_entry(&entry, index);
        if !self.can_undo_segment(&entry, index)
            || undo_segment_event(&mut self.ranges, &entry, given_back, Joining::Joined).is_err()
        {
            self.edits.drop_entry(index);
            self.edits.count(SEGMENT);
        }
    }

    /// Makes room for undoing a segment event, and returns whether that is possible.
    fn can_undo_segment(&mut self, entry: &TraceEntry, index: usize) -> bool {
        loop {
            match segment_obstacle(&self.ranges, entry) {
                Some(Obstacle::Overlapped { by }) if self.begin_segment(by, index) => {}
                Some(_) => return false,
                None => break,
            }
        }
        let takes = matches!(entry.action, Some(Action::SegmentAlloc | Action::SegmentMap));
        !takes || self.clear(entry.address, entry.end(), index)
    }

    /// Starts a segment directly after an entry. Returns whether its start is not in the trace.
    fn begin_segment(&mut self, start: Address, index: usize) -> bool {
        let Some(span) = self.ranges.get(start) else { return false };
        let is_paired = match span.value.origin {
            Origin::Segment(_) => self.pairs.open_segments.contains(&start),
            Origin::Entry(entry) => self.pairs.paired_frees.contains(&entry),
        };
        if is_paired || span.value.is_expandable || !self.clear(start, span.end, index) {
            return false;
        }
        let pattern = TraceEntry { stream: span.value.stream, ..self.trace[index] };
        let segment = self.template.entry(&pattern, Action::SegmentAlloc, start, span.end - start, None);
        // In front of the allocs that `clear` added.
        self.edits.first_after(index, segment);
        self.edits.count(SEGMENT_ALLOCATED);
        self.ranges.remove(start);
        true
    }
}
