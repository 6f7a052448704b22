//! The events of the driver and of PyTorch in one order.
//!
//! Each trace keeps its order. Between the two, times decide, unless a pair of events about the same memory shows more:
//! the driver's allocation comes before PyTorch's segment, and whatever follows the driver's free comes after
//! PyTorch's.

use std::collections::BTreeMap;

use super::{
    lives::{Fate, Found, Start, begun_blocks},
    side::Side,
};
use crate::{
    history::active_blocks,
    model::{Block, Field, Shapes, StackTable, TraceEntry},
    rewrite::EntryTemplate,
    words::{Action, Address, BlockState, SeededMap, StreamId},
};

/// Writes the events of both.
pub(super) fn join(
    driver: &Side,
    torch: &Side,
    start: &Start,
    found: &Found,
    shapes: &mut Shapes,
) -> Vec<TraceEntry> {
    let pattern = torch.trace.first().or(driver.trace.first()).copied().unwrap_or_default();
    let live = torch.segments.iter().flat_map(|segment| {
        active_blocks(segment).map(|found| (found.block.address, (segment.stream, found.block)))
    });
    let mut joined = Joined {
        entries: Vec::with_capacity(driver.trace.len() + torch.trace.len()),
        latest_us: 0,
        live: live.collect(),
        pattern,
        shapes,
        found,
    };
    joined.all(driver, torch, start);
    joined.entries
}

struct Joined<'a> {
    entries: Vec<TraceEntry>,
    latest_us: i64,
    /// PyTorch's blocks in use at its end, with their streams.
    live: BTreeMap<Address, (StreamId, Block)>,
    /// An entry whose keys are used for entries that are added.
    pattern: TraceEntry,
    shapes: &'a mut Shapes,
    found: &'a Found,
}

impl Joined<'_> {
    fn all(&mut self, driver: &Side, torch: &Side, start: &Start) {
        let found = self.found;
        let (mut at, mut of_torch) = (0, 0);
        let (mut driver_us, mut torch_us) = (i64::MIN, start.time_us);
        loop {
            if at == found.n_before && of_torch == 0 {
                self.begin(driver, start);
            }
            let (ours, theirs) = (driver.trace.get(at), torch.trace.get(of_torch));
            ours.into_iter().for_each(|entry| driver_us = driver_us.max(entry.time_us));
            theirs.into_iter().for_each(|entry| torch_us = torch_us.max(entry.time_us));
            let waits = |after: &SeededMap<usize, usize>, number: usize, n_other: usize| {
                after.get(&number).is_some_and(|n| *n > n_other)
            };
            let is_driver = match (ours, theirs) {
                (None, None) => return,
                (Some(_), None) => true,
                (None, Some(_)) => false,
                (Some(_), Some(_)) => {
                    let ours_waits = waits(&found.driver_after, at, of_torch);
                    let theirs_waits = waits(&found.torch_after, of_torch, at);
                    if ours_waits == theirs_waits { driver_us <= torch_us } else { theirs_waits }
                }
            };
            if is_driver {
                self.of_driver(at, driver.trace[at]);
                at += 1;
            } else {
                self.of_torch(of_torch, torch.trace[of_torch]);
                of_torch += 1;
            }
        }
    }

    /// Replaces the driver's blocks by PyTorch's where PyTorch's history starts.
    fn begin(&mut self, driver: &Side, start: &Start) {
        let time_us = if start.time_us == i64::MAX { self.latest_us } else { start.time_us };
        let found = self.found;
        for (number, is_requested) in &found.replaced {
            let entry = TraceEntry { time_us, ..driver.trace[*number] };
            let entry = self.with_fate(*number, entry);
            if !is_requested {
                self.add(&entry, Action::FreeRequested);
            }
            self.add(&entry, Action::FreeCompleted);
        }
        for (segment, block) in begun_blocks(start, found) {
            let pattern = TraceEntry {
                time_us,
                address: block.address,
                size: block.requested_size,
                stream: segment.stream,
                ..self.pattern
            };
            let stack = block.stack.filter(|stack| *stack != StackTable::EMPTY);
            let entry = EntryTemplate::new(self.shapes).entry(
                &pattern,
                Action::Alloc,
                block.address,
                block.requested_size,
                stack,
            );
            self.push(entry);
            if block.state == Some(BlockState::ActivePendingFree) {
                self.add(&pattern, Action::FreeRequested);
            }
        }
    }

    /// Adds an entry without a stack about the memory of another.
    fn add(&mut self, pattern: &TraceEntry, action: Action) {
        let entry =
            EntryTemplate::new(self.shapes).entry(pattern, action, pattern.address, pattern.size, None);
        self.push(entry);
    }

    fn push(&mut self, mut entry: TraceEntry) {
        // An entry without a time has the time 0.
        if entry.time_us != 0 {
            self.latest_us = self.latest_us.max(entry.time_us);
            entry.time_us = self.latest_us;
        }
        self.entries.push(entry);
    }

    fn of_driver(&mut self, number: usize, entry: TraceEntry) {
        if let Some((start, end)) = self.found.ended.get(&number) {
            self.end_blocks(*start, *end, entry.time_us);
        }
        if !matches!(self.found.fates.get(&number), Some(Fate::Dropped)) {
            let entry = self.with_fate(number, entry);
            self.push(entry);
        }
    }

    /// An entry of the driver, with the stream and the kind of PyTorch's segment if it is about one.
    fn with_fate(&self, number: usize, entry: TraceEntry) -> TraceEntry {
        let Some(Fate::Kept(range)) = self.found.fates.get(&number) else { return entry };
        let action = match (entry.action, range.is_expandable) {
            (Some(Action::SegmentAlloc), true) => Some(Action::SegmentMap),
            (Some(Action::SegmentFree), true) => Some(Action::SegmentUnmap),
            (Some(Action::SegmentMap), false) => Some(Action::SegmentAlloc),
            (Some(Action::SegmentUnmap), false) => Some(Action::SegmentFree),
            (action, _) => action,
        };
        TraceEntry { stream: range.stream, action, ..entry }
    }

    /// Frees PyTorch's blocks in a range that the driver takes back after the dump.
    fn end_blocks(&mut self, start: Address, end: Address, time_us: i64) {
        loop {
            let last = self.live.range(..end).next_back();
            let Some((address, (stream, block))) = last.map(|(address, live)| (*address, *live)) else {
                return;
            };
            if block.address.saturating_add(block.size) <= start {
                return;
            }
            self.live.remove(&address);
            let size = block.requested_size;
            let pattern = TraceEntry { time_us, address, size, stream, ..self.pattern };
            if block.state != Some(BlockState::ActivePendingFree) {
                self.add(&pattern, Action::FreeRequested);
            }
            self.add(&pattern, Action::FreeCompleted);
        }
    }

    fn of_torch(&mut self, number: usize, entry: TraceEntry) {
        if self.found.hidden_entries[number] {
            return;
        }
        let entry = match self.found.stacks.get(&number) {
            Some(stack) if self.shapes.get(entry.shape).has(Field::Frames) => {
                TraceEntry { stack: Some(*stack), ..entry }
            }
            Some(stack) => EntryTemplate::new(self.shapes).entry(
                &entry,
                entry.action.unwrap_or(Action::SegmentAlloc),
                entry.address,
                entry.size,
                Some(*stack),
            ),
            None => entry,
        };
        self.push(entry);
    }
}
