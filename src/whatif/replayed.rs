//! Builds the snapshot of a replayed run: new addresses and segments, the recorded stacks and times.

use super::{
    bounds::Bounds,
    replay::{Question, can_repeat},
    requests::Requests,
    run::{Conditions, Order, Run},
};
use crate::{
    collect::{Dialect, collect},
    recorder::{Context, Recorder, Recording},
};
use memreel_snapshot::{
    history::ByDevice,
    model::{Field, Segment, Shape, ShapeId, Slot, Snapshot, StackIndex, StackTable, TraceEntry},
    words::{Action, Address, BlockState, Result, SeededMap},
};

/// Runs the requests of one or more devices of a snapshot under the settings `conf`, and returns the
/// snapshot of the end of the run. Without a limit each device has [what the recorded run had](Requests::bounds).
///
/// Addresses are the recorded ones if a [`Replay`](super::Replay) uses them, otherwise falling ones. Each event has the
/// time and the stack of the entry from which its request was read. Blocks that were live before the history started
/// have no events, as in the recorded snapshot.
///
/// # Errors
/// [`is_invalid_option`](crate::Error::is_invalid_option) for settings that cannot be read.
pub fn replayed(
    snapshot: &Snapshot,
    requests: &[&Requests],
    conf: &str,
    limit_bytes: Option<u64>,
) -> Result<Snapshot> {
    let question = |requests: &Requests| {
        let bounds = limit_bytes.map_or_else(|| requests.bounds(), Bounds::Limit);
        Question { conf: conf.to_owned(), bounds, switch: None }
    };
    let repeats = requests.iter().all(|requests| can_repeat(requests, &question(requests)));
    let order = if repeats { Order::Recorded } else { Order::Falling };
    replayed_in(snapshot, requests, question, order)
}

fn replayed_in(
    snapshot: &Snapshot,
    requests: &[&Requests],
    question: impl Fn(&Requests) -> Question,
    order: Order,
) -> Result<Snapshot> {
    // A ring of this capacity never loses an event, and grows only as it fills.
    const UNBOUNDED: usize = match 1_usize.checked_shl(40) {
        Some(n) => n,
        None => usize::MAX >> 6,
    };
    let recorder = Recorder::new();
    recorder.record_history(&Recording::all().context(Context::None).max_entries(UNBOUNDED));
    let logs: Result<Vec<Log<'_>>> = requests
        .iter()
        .map(|requests| Log::new(requests, &question(requests).conditions(order)?, &recorder))
        .collect();
    let logs = logs?;
    let collected = collect(&recorder, logs.iter().map(|log| &log.run.allocator), Dialect::default());
    let mut writer = Writer::new(snapshot, &collected);
    let segments = ByDevice::new(&collected);
    logs.iter().for_each(|log| writer.device(log, &segments));
    Ok(writer.out)
}

/// A run, with the entry from which each of its events was read.
struct Log<'a> {
    run: Run<'a>,
    requests: &'a Requests,
    /// The number of events of blocks from before the history.
    n_before: usize,
    /// The recorded entry for each later event.
    entries: Vec<usize>,
}

impl<'a> Log<'a> {
    fn new(requests: &'a Requests, conditions: &Conditions, recorder: &Recorder) -> Result<Log<'a>> {
        let mut run = Run::start(requests, conditions, recorder)?;
        let track = recorder.track(requests.device);
        let n_before = track.n_written();
        let mut entries: Vec<usize> = Vec::with_capacity(requests.steps.len() * 2);
        for step in &requests.steps {
            run.step(step)?;
            entries.resize(track.n_written() - n_before, step.entry());
        }
        Ok(Log { run, requests, n_before, entries })
    }
}

/// Builds the snapshot. It starts with the stacks and shapes of the recorded snapshot, so that it can hold records of
/// both.
struct Writer<'a> {
    recorded: &'a Snapshot,
    collected: &'a Snapshot,
    out: Snapshot,
    entry_shapes: SeededMap<(ShapeId, ShapeId, bool), ShapeId>,
}

/// The stacks of the blocks and segments, by address.
#[derive(Default)]
struct Origins {
    blocks: SeededMap<Address, StackIndex>,
    segments: SeededMap<Address, StackIndex>,
}

impl<'a> Writer<'a> {
    fn new(recorded: &'a Snapshot, collected: &'a Snapshot) -> Writer<'a> {
        let out = Snapshot {
            stacks: recorded.stacks.clone(),
            shapes: recorded.shapes.clone(),
            external_annotations: recorded.external_annotations.clone(),
            shape: collected.shape.clone(),
            device_traces: vec![Vec::new(); recorded.device_traces.len().max(collected.device_traces.len())],
            ..Snapshot::default()
        };
        Writer { recorded, collected, out, entry_shapes: SeededMap::default() }
    }

    fn device(&mut self, log: &Log<'_>, segments: &ByDevice<'_>) {
        let device = log.requests.device;
        let mut origins = Origins::default();
        for prior in &log.requests.priors {
            if let (Some(address), Some(stack)) = (log.run.address(prior.slot), prior.stack) {
                origins.blocks.insert(address, stack);
            }
        }
        let events = self.collected.trace(device);
        let recorded = self.recorded.trace(device);
        let mut trace = Vec::with_capacity(log.entries.len());
        let mut time_us = i64::MIN;
        for (event, entry) in events[log.n_before..].iter().zip(&log.entries) {
            let written = self.entry(event, &recorded[*entry], time_us);
            time_us = written.time_us;
            origins.note(&written);
            trace.push(written);
        }
        if let Some(out) = device.index().and_then(|index| self.out.device_traces.get_mut(index)) {
            *out = trace;
        }
        for (_, segment) in segments.segments(device) {
            let segment = self.segment(segment, &origins);
            self.out.segments.push(segment);
        }
    }

    fn entry(&mut self, event: &TraceEntry, recorded: &TraceEntry, least_us: i64) -> TraceEntry {
        let key = (event.shape, recorded.shape, recorded.stack.is_some());
        let shape = match self.entry_shapes.get(&key) {
            Some(shape) => *shape,
            None => {
                let shape = self.entry_shape(event.shape, recorded);
                *self.entry_shapes.entry(key).or_insert(shape)
            }
        };
        TraceEntry { time_us: recorded.time_us.max(least_us), stack: recorded.stack, shape, ..*event }
    }

    /// Returns the shape of an entry: the collector's keys, the recorded texts, and a key for the frames.
    fn entry_shape(&mut self, collected: ShapeId, recorded: &TraceEntry) -> ShapeId {
        let mut shape = self.collected.shapes.get(collected).clone();
        let texts = self.recorded.shapes.get(recorded.shape);
        for key in ["compile_context", "user_metadata"] {
            if let Some(value) = texts.value(key) {
                shape.set(key.into(), Slot::Value(value.clone()));
            }
        }
        if recorded.stack.is_some() {
            shape.set("frames".into(), Slot::Field(Field::Frames));
        }
        self.out.shapes.intern(shape)
    }

    fn segment(&mut self, segment: &Segment, origins: &Origins) -> Segment {
        let mut segment = segment.clone();
        let stack = origins.segments.get(&segment.address).copied().unwrap_or(StackTable::EMPTY);
        let mut shape = self.collected.shapes.get(segment.shape).clone();
        if stack != StackTable::EMPTY {
            frames_last(&mut shape);
        }
        segment.stack = Some(stack);
        segment.shape = self.out.shapes.intern(shape);
        for block in &mut segment.blocks {
            let is_active = block.state.is_some_and(BlockState::is_active);
            let stack = origins.blocks.get(&block.address).copied().filter(|_| is_active);
            block.stack = Some(stack.unwrap_or(StackTable::EMPTY));
            block.shape = self.out.shapes.intern_shared(&self.collected.shapes, block.shape);
        }
        segment
    }
}

/// Moves a segment's frames after its blocks, as in segments with a stack (`docs/snapshot-format.md` 1.2).
fn frames_last(shape: &mut Shape) {
    shape.slots.sort_by_key(|(_, slot)| *slot == Slot::Field(Field::Frames));
}

impl Origins {
    fn note(&mut self, entry: &TraceEntry) {
        let into = match entry.action {
            Some(Action::Alloc) => &mut self.blocks,
            Some(Action::SegmentAlloc | Action::SegmentMap) => &mut self.segments,
            _ => return,
        };
        into.insert(entry.address, entry.stack.unwrap_or(StackTable::EMPTY));
    }
}
