//! Reads the lives of blocks and segments forward, and adds the events that a trace lacks.
//!
//! An event that cannot follow earlier entries shows which event is missing (invariants 21, 23 and 25). Ends are added
//! as late as possible: a block is live until its memory is used again. A missing `free_completed` alone is added
//! directly after its request, as PyTorch writes it.

use super::{edits::Edits, entry_template::EntryTemplate, trace_end::TraceEnd};
use crate::{
    history::{
        Contradiction, DeviceRange, FinalBlock, Forward, LifeIndex, Live, Origin, Places, Ranges, Span,
        State, Step,
    },
    model::{StackIndex, TraceEntry},
    words::{Action, Address, BlockState},
};

const COMPLETED: &str = "added the missing free_completed";
const REQUESTED: &str = "added the missing free_requested";
const FREED: &str = "added the missing free";
const ALLOCATED: &str = "added the missing alloc of a block in use at the end";
const RESIZED: &str = "set the size of an event to that of its block";
const UNMAPPED: &str = "added the missing segment_free or segment_unmap";

/// Adds the events that must have happened between the entries of a trace and after them.
pub(super) fn complete(
    trace: &[TraceEntry],
    places: &Places,
    end: &TraceEnd<'_>,
    template: &mut EntryTemplate<'_>,
) -> Edits {
    let mut completion = Completion {
        trace,
        template,
        edits: Edits::new(trace.len()),
        walk: Forward::default(),
        lives: Vec::new(),
        live: Live::new(places),
        ranges: Ranges::default(),
    };
    (0..trace.len()).for_each(|index| completion.step(index));
    completion.end_blocks(end);
    completion.end_ranges(end);
    completion.edits
}

/// The entries of a life.
#[derive(Clone, Copy, Debug)]
struct LifeEntries {
    first: usize,
    last: usize,
    requested: Option<usize>,
}

struct Completion<'a, 'b> {
    trace: &'a [TraceEntry],
    template: &'a mut EntryTemplate<'b>,
    edits: Edits,
    walk: Forward,
    /// By the numbers that `walk` gives them.
    lives: Vec<LifeEntries>,
    /// The lives of the blocks in use. None of them overlap.
    live: Live<'a, Span<LifeIndex>>,
    /// The ranges that the trace itself took from the device.
    ranges: Ranges<DeviceRange>,
}

impl Completion<'_, '_> {
    fn step(&mut self, index: usize) {
        let entry = self.trace[index];
        let (address, end) = entry.span();
        match entry.action {
            Some(Action::Alloc | Action::SegmentFree | Action::SegmentUnmap) => {
                self.close_all(address, end, index);
            }
            Some(Action::SegmentAlloc | Action::SegmentMap) => self.range_begins(index),
            _ => {}
        }
        match self.walk.step(&entry) {
            Step::Begin { life, .. } => self.begin(life, index, None),
            Step::Request { life, began_bytes, is_prior: false } => {
                self.life(life).requested = Some(index);
                self.life(life).last = index;
                self.resize(index, began_bytes);
            }
            Step::Request { life, is_prior: true, .. } => {
                self.close_all(address, end, index);
                self.begin(life, index, Some(index));
            }
            Step::End { life, began_bytes, is_prior: false, was_requested } => {
                self.live.remove(address);
                self.life(life).last = index;
                if !was_requested {
                    self.add_request(index);
                }
                self.resize(index, began_bytes);
            }
            Step::End { is_prior: true, .. } => {
                self.close_all(address, end, index);
                self.lives.push(LifeEntries { first: index, last: index, requested: None });
            }
            Step::Contradiction(Contradiction::CompletionOfFree) => {
                self.close_all(address, end, index);
                self.add_request(index);
                if let Some(spot) = self.walk.spot(address) {
                    self.life(spot.life).last = index;
                }
            }
            Step::Contradiction(_) => {
                self.close_all(address, end, index);
                let life = self.walk.begin_requested(&entry);
                self.begin(life, index, Some(index));
            }
            Step::Other => {}
        }
        if let Some(Action::SegmentFree | Action::SegmentUnmap) = entry.action {
            self.ranges.carve(address, end);
        }
    }

    fn life(&mut self, life: LifeIndex) -> &mut LifeEntries {
        &mut self.lives[life as usize]
    }

    fn begin(&mut self, life: LifeIndex, index: usize, requested: Option<usize>) {
        let (address, end) = self.trace[index].span();
        self.live.insert(address, Span { end, value: life });
        self.lives.push(LifeEntries { first: index, last: index, requested });
    }

    /// Sets an event's size to the one with which its block started.
    fn resize(&mut self, index: usize, size: u64) {
        if self.trace[index].size != size {
            self.edits.resize(index, size);
            self.edits.count(RESIZED);
        }
    }

    /// Adds the request for a completion, before it.
    fn add_request(&mut self, index: usize) {
        let TraceEntry { address, size, .. } = self.trace[index];
        let entry = self.template.entry(&self.trace[index], Action::FreeRequested, address, size, None);
        self.edits.before(index, entry);
        self.edits.count(REQUESTED);
    }

    /// Ends the blocks in use in a range that an entry needs.
    fn close_all(&mut self, start: Address, end: Address, index: usize) {
        while let Some((address, block)) = self.live.overlapping(start, end) {
            self.close(address, block.value, index);
        }
    }

    /// Ends a block before an entry, or after all if `index` is the number of entries.
    fn close(&mut self, address: Address, life: LifeIndex, index: usize) {
        self.live.remove(address);
        self.walk.close(address);
        let LifeEntries { first, requested, .. } = *self.life(life);
        let pattern = &self.trace[first];
        let mut entry = |action| self.template.entry(pattern, action, address, pattern.size, None);
        let completed = entry(Action::FreeCompleted);
        if let Some(requested) = requested {
            self.edits.after(requested, completed);
            self.edits.count(COMPLETED);
            return;
        }
        for entry in [entry(Action::FreeRequested), completed] {
            self.edits.before(index, entry);
        }
        self.edits.count(FREED);
    }

    /// Brings every address to its state in the segments.
    fn end_blocks(&mut self, end: &TraceEnd<'_>) {
        let live: Vec<(Address, LifeIndex)> =
            self.live.iter().map(|(address, block)| (address, block.value)).collect();
        for (address, life) in live {
            let LifeEntries { first, requested, .. } = *self.life(life);
            match (requested, end.state.state(address)) {
                (None, Some(BlockState::ActiveAllocated))
                | (Some(_), Some(BlockState::ActivePendingFree)) => {
                    if let Some(size) = end.requested_bytes(address) {
                        [Some(first), requested].into_iter().flatten().for_each(|index| {
                            self.resize(index, size);
                        });
                    }
                }
                (None, Some(_)) => {
                    self.push(Action::FreeRequested, &self.trace[first].clone(), None);
                    self.edits.count(REQUESTED);
                }
                (Some(_), Some(_)) => {
                    self.close(address, life, self.trace.len());
                    end.state.block(address).into_iter().for_each(|block| self.append(block, first));
                }
                (_, None) => self.close(address, life, self.trace.len()),
            }
            // It is in its final state: a range that ends later ends no block.
            self.live.remove(address);
        }
        for block in end.state.blocks() {
            let free = self.walk.spot(block.block.address).filter(|spot| spot.state == State::Free);
            if let Some(spot) = free {
                let last = self.life(spot.life).last;
                self.append(block, last);
            }
        }
    }

    /// Adds the alloc of a block that is in use at the end and was free before.
    fn append(&mut self, block: &FinalBlock<'_>, pattern: usize) {
        let (block, stream) = (block.block, block.segment.stream);
        let pattern =
            TraceEntry { address: block.address, size: block.requested_size, stream, ..self.trace[pattern] };
        self.push(Action::Alloc, &pattern, block.stack);
        if block.state == Some(BlockState::ActivePendingFree) {
            self.push(Action::FreeRequested, &pattern, None);
        }
        self.edits.count(ALLOCATED);
        self.walk.begin(block.address, block.requested_size, State::Live);
    }

    fn push(&mut self, action: Action, pattern: &TraceEntry, stack: Option<StackIndex>) {
        let entry = self.template.entry(pattern, action, pattern.address, pattern.size, stack);
        self.edits.before(self.trace.len(), entry);
    }

    fn range_begins(&mut self, index: usize) {
        let entry = self.trace[index];
        let (start, end) = (entry.address, entry.end());
        while let Some((from, span)) = self.ranges.overlapping(start, end) {
            let (from, until) = if span.value.is_expandable {
                (from.max(start), span.end.min(end))
            } else {
                (from, span.end)
            };
            self.ranges.carve(from, until);
            self.unmap(from, until, span, index);
        }
        if end > start {
            let value = DeviceRange::from_entry(&entry, index);
            self.ranges.insert(start, Span { end, value });
        }
    }

    /// Ends a range before an entry.
    fn unmap(&mut self, start: Address, end: Address, span: Span<DeviceRange>, index: usize) {
        let Origin::Entry(first) = span.value.origin else { return };
        let action = if span.value.is_expandable { Action::SegmentUnmap } else { Action::SegmentFree };
        self.close_all(start, end, index);
        let entry = self.template.entry(&self.trace[first], action, start, end - start, None);
        self.edits.before(index, entry);
        self.edits.count(UNMAPPED);
    }

    /// Ends the ranges that the trace took but the segments do not have.
    fn end_ranges(&mut self, end: &TraceEnd<'_>) {
        let behind = self.trace.len();
        for (start, span) in std::mem::take(&mut self.ranges).iter() {
            if !span.value.is_expandable {
                let is_there = end.ranges.get(start).is_some_and(|other| other.end == span.end);
                if !is_there {
                    self.unmap(start, span.end, span, behind);
                }
                continue;
            }
            let mut until = span.end;
            while until > start {
                let (from, to) = match end.ranges.overlapping(start, until) {
                    Some((other, there)) => (other.max(start), there.end.min(until)),
                    None => (start, start),
                };
                if to < until {
                    self.unmap(to, until, span, behind);
                }
                until = from;
            }
        }
    }
}
