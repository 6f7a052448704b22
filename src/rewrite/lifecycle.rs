//! The lives of blocks and segments, read forward: what was left out of a trace is put back.
//!
//! An event that is impossible where it stands tells which event is missing
//! (invariants 21, 23 and 25). Ends are put in as late as can be: a block is
//! live until its memory is used again. A `free_completed` alone comes right
//! behind its request, as PyTorch writes it.

use rustc_hash::FxHashMap;

use super::{edits::Edits, mold::Mold, trace_end::TraceEnd};
use crate::{
    event::{Action, Address},
    history::{DeviceRange, FinalBlock, Live, Origin, Places, Ranges, Span},
    inventory::BlockState,
    snapshot::{StackIndex, TraceEntry},
};

const COMPLETED: &str = "added the free_completed that was left out";
const REQUESTED: &str = "added the free_requested that was left out";
const FREED: &str = "added the free that was left out";
const ALLOCATED: &str = "added the alloc that was left out, of a block in use at the end";
const RESIZED: &str = "gave an event the size that its block has elsewhere";
const UNMAPPED: &str = "added the segment_free or segment_unmap that was left out";

/// A block in use, as the trace records it.
#[derive(Clone, Copy, Debug)]
struct Open {
    end: Address,
    /// As its first entry has it, which lies far back.
    size: u64,
    /// The entry that began it.
    first: usize,
    /// The entry that asked to free it.
    requested: Option<usize>,
}

/// Puts in what must have happened between the entries of a trace and after them.
pub(super) fn complete(
    trace: &[TraceEntry],
    places: &Places,
    end: &TraceEnd<'_>,
    mold: &mut Mold<'_>,
) -> Edits {
    let mut forward = Forward {
        trace,
        mold,
        edits: Edits::new(trace.len()),
        open: Live::new(places),
        last: FxHashMap::default(),
        ranges: Ranges::default(),
    };
    (0..trace.len()).for_each(|index| forward.step(index));
    forward.end_blocks(end);
    forward.end_ranges(end);
    forward.edits
}

struct Forward<'a, 'b> {
    trace: &'a [TraceEntry],
    mold: &'a mut Mold<'b>,
    edits: Edits,
    open: Live<'a, Open>,
    /// The last entry of every address.
    last: FxHashMap<Address, usize>,
    /// What the trace itself got from the device.
    ranges: Ranges<DeviceRange>,
}

impl Forward<'_, '_> {
    fn step(&mut self, index: usize) {
        let entry = self.trace[index];
        let end = entry.address.saturating_add(entry.size.max(1));
        match entry.action {
            Some(Action::Alloc) => {
                self.close_all(entry.address, end, index);
                self.begin(index, None);
            }
            Some(Action::FreeRequested) => self.request(index, end),
            Some(Action::FreeCompleted) => self.finish(index, end),
            Some(Action::SegmentAlloc | Action::SegmentMap) => self.range_begins(index),
            Some(Action::SegmentFree | Action::SegmentUnmap) => {
                self.close_all(entry.address, end, index);
                self.range_ends(entry.address, end);
            }
            _ => {}
        }
    }

    fn begin(&mut self, index: usize, requested: Option<usize>) {
        let entry = &self.trace[index];
        let end = entry.address.saturating_add(entry.size.max(1));
        self.open.insert(entry.address, Open { end, size: entry.size, first: index, requested });
        self.last.insert(entry.address, index);
    }

    fn request(&mut self, index: usize, end: Address) {
        let address = self.trace[index].address;
        match self.open.get_mut(address) {
            Some(open) if open.requested.is_none() => {
                open.requested = Some(index);
                let size = open.size;
                self.last.insert(address, index);
                self.resize(index, size);
            }
            _ => {
                self.close_all(address, end, index);
                self.begin(index, Some(index));
            }
        }
    }

    fn finish(&mut self, index: usize, end: Address) {
        let address = self.trace[index].address;
        match self.open.remove(address) {
            Some(open) => {
                if open.requested.is_none() {
                    self.put_request(index);
                }
                self.resize(index, open.size);
            }
            None => {
                self.close_all(address, end, index);
                if self.last.contains_key(&address) {
                    self.put_request(index);
                }
            }
        }
        self.last.insert(address, index);
    }

    /// Gives an event the size that its block began with.
    fn resize(&mut self, index: usize, size: u64) {
        if self.trace[index].size != size {
            self.edits.resize(index, size);
            self.edits.tell(RESIZED);
        }
    }

    /// The request of a completion, in front of it.
    fn put_request(&mut self, index: usize) {
        let TraceEntry { address, size, .. } = self.trace[index];
        let entry = self.mold.entry(&self.trace[index], Action::FreeRequested, address, size, None);
        self.edits.before(index, entry);
        self.edits.tell(REQUESTED);
    }

    /// Ends what is in use in a range that the entry of that number needs.
    fn close_all(&mut self, start: Address, end: Address, index: usize) {
        while let Some((address, open)) = self.open.last_below(start, end).map(|(at, open)| (at, *open)) {
            if open.end <= start {
                return;
            }
            self.open.remove(address);
            self.close(address, open, Some(index));
        }
    }

    /// Ends a block in front of an entry, or behind all.
    fn close(&mut self, address: Address, open: Open, index: Option<usize>) {
        let pattern = &self.trace[open.first];
        let mut entry = |action| self.mold.entry(pattern, action, address, pattern.size, None);
        let completed = entry(Action::FreeCompleted);
        if let Some(requested) = open.requested {
            self.edits.after(requested, completed);
            self.edits.tell(COMPLETED);
            return;
        }
        for entry in [entry(Action::FreeRequested), completed] {
            self.edits.before(index.unwrap_or(self.trace.len()), entry);
        }
        self.edits.tell(FREED);
    }

    /// Brings every address to its state in the segments.
    fn end_blocks(&mut self, end: &TraceEnd<'_>) {
        let open: Vec<(Address, Open)> = self.open.iter().map(|(address, open)| (address, *open)).collect();
        for (address, open) in open.iter().copied() {
            match (open.requested, end.state.state(address)) {
                (None, Some(BlockState::ActiveAllocated))
                | (Some(_), Some(BlockState::ActivePendingFree)) => {
                    if let Some(size) = end.requested_bytes(address) {
                        [Some(open.first), open.requested].into_iter().flatten().for_each(|index| {
                            self.resize(index, size);
                        });
                    }
                }
                (None, Some(_)) => {
                    self.push(Action::FreeRequested, &self.trace[open.first].clone(), None);
                    self.edits.tell(REQUESTED);
                }
                (_, None) => self.close(address, open, None),
                (Some(_), Some(_)) => {
                    self.close(address, open, None);
                    end.state.block(address).into_iter().for_each(|block| self.append(block, open.first));
                }
            }
        }
        for block in end.state.blocks() {
            let address = block.block.address;
            if let Some(last) = self.last.get(&address).filter(|_| self.open.get(address).is_none()) {
                self.append(block, *last);
            }
        }
        // They are ended: what `end_ranges` closes has none of them left.
        for (address, _) in open {
            self.open.remove(address);
        }
    }

    /// The alloc of a block that is in use at the end and free before.
    fn append(&mut self, block: &FinalBlock<'_>, pattern: usize) {
        let (block, stream) = (block.block, block.segment.stream);
        let pattern =
            TraceEntry { address: block.address, size: block.requested_size, stream, ..self.trace[pattern] };
        self.push(Action::Alloc, &pattern, block.stack);
        if block.state == Some(BlockState::ActivePendingFree) {
            self.push(Action::FreeRequested, &pattern, None);
        }
        self.edits.tell(ALLOCATED);
    }

    fn push(&mut self, action: Action, pattern: &TraceEntry, stack: Option<StackIndex>) {
        let entry = self.mold.entry(pattern, action, pattern.address, pattern.size, stack);
        self.edits.before(self.trace.len(), entry);
    }

    fn range_begins(&mut self, index: usize) {
        let entry = self.trace[index];
        let (start, end) = (entry.address, entry.address.saturating_add(entry.size));
        while let Some((from, span)) = self.ranges.overlapping(start, end) {
            let (from, until) = if span.value.is_expandable {
                (from.max(start), span.end.min(end))
            } else {
                (from, span.end)
            };
            self.ranges.carve(from, until);
            self.unmap(from, until, span, index);
        }
        let is_expandable = entry.action == Some(Action::SegmentMap);
        if end > start {
            let value = DeviceRange { stream: entry.stream, is_expandable, origin: Origin::Entry(index) };
            self.ranges.insert(start, Span { end, value });
        }
    }

    fn range_ends(&mut self, start: Address, end: Address) {
        self.ranges.carve(start, end);
    }

    /// The end of a range in front of an entry.
    fn unmap(&mut self, start: Address, end: Address, span: Span<DeviceRange>, index: usize) {
        let Origin::Entry(first) = span.value.origin else { return };
        let action = if span.value.is_expandable { Action::SegmentUnmap } else { Action::SegmentFree };
        self.close_all(start, end, index);
        let entry = self.mold.entry(&self.trace[first], action, start, end - start, None);
        self.edits.before(index, entry);
        self.edits.tell(UNMAPPED);
    }

    /// What the trace got and the segments no longer have went back.
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
