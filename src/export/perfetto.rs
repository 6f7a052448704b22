//! Chrome's trace events: a process for each device, counters of its bytes, slices of its blocks and scopes.
//!
//! A block is an asynchronous slice from its alloc to its `free_completed`,
//! named by the function that asked for it. What lived before the history or
//! after it begins or ends with it. Bytes in use are the requested bytes of
//! the events.

use std::{
    io::{self, Write},
    rc::Rc,
};

use rustc_hash::FxHashMap;

use super::text::{Out, quoted};
use crate::{
    event::{Action, Address},
    history::active_blocks,
    rewrite::{at::segments_at, trace::Trace},
    snapshot::{Block, Segment, Snapshot, StackIndex, StackTable, TraceEntry},
};

pub(super) fn write(snapshot: &Snapshot, sink: &mut impl Write) -> io::Result<()> {
    let times = snapshot.device_traces.iter().flatten().map(|entry| entry.time_us);
    let mut writer = Writer {
        snapshot,
        out: Out::new(sink),
        is_first: true,
        n_slices: 0,
        labels: vec![None; snapshot.stacks.len()],
        begin_us: times.clone().min().unwrap_or(0),
        end_us: times.max().unwrap_or(0),
    };
    writer.out.text("{\"displayTimeUnit\":\"ms\",\"traceEvents\":[");
    for device in 0..snapshot.device_traces.len() {
        writer.device(device);
    }
    writer.scopes();
    writer.out.text("\n]}\n");
    writer.out.finish()
}

/// A block's slice that is not over.
#[derive(Clone, Copy)]
struct Open {
    slice: u64,
    stack: Option<StackIndex>,
}

/// What a stack's slices are called, and where they come from; as JSON.
struct Label {
    name: String,
    place: String,
}

struct Writer<'a, W> {
    snapshot: &'a Snapshot,
    out: Out<'a, W>,
    is_first: bool,
    n_slices: u64,
    /// By the number of the stack.
    labels: Vec<Option<Rc<Label>>>,
    begin_us: i64,
    end_us: i64,
}

impl<'a, W: Write> Writer<'a, W> {
    /// Begins an event, up to its further keys; [`Writer::end_event`] follows those.
    fn event(&mut self, kind: &str, device: usize, time_us: i64) -> &mut Out<'a, W> {
        let time = time_us.saturating_sub(self.begin_us);
        let before = if std::mem::take(&mut self.is_first) { "\n{\"ph\":\"" } else { ",\n{\"ph\":\"" };
        self.out
            .text(before)
            .text(kind)
            .text("\",\"pid\":")
            .int(device)
            .text(",\"tid\":0,\"ts\":")
            .int(time)
            .text(",")
    }

    /// Whether it is worth going on.
    fn end_event(&mut self) -> bool {
        self.out.text("}");
        self.out.spill()
    }

    fn device(&mut self, device: usize) {
        let snapshot = self.snapshot;
        let trace = &snapshot.device_traces[device];
        let mut shapes = snapshot.shapes.clone();
        let all = Trace::Of(snapshot, device.into());
        let start = segments_at(&snapshot.segments, device.into(), all, 0, &mut shapes);
        if trace.is_empty() && start.is_empty() {
            return;
        }
        let name = quoted(&format!("device {device}"));
        let out = self.event("M", device, self.begin_us);
        out.text("\"name\":\"process_name\",\"args\":{\"name\":").text(&name).text("}");
        self.end_event();
        let mut open = self.open_before(device, &start);
        let mut reserved: i128 = start.iter().map(|segment| i128::from(segment.total_size)).sum();
        // Files of PyTorch 2.0 have no sum of requested bytes; the blocks have them.
        let blocks = start.iter().flat_map(active_blocks);
        let mut active: i128 = blocks.map(|block| i128::from(block.block.requested_size)).sum();
        self.counter(device, self.begin_us, active, reserved);
        for entry in trace {
            let size = i128::from(entry.size);
            match entry.action {
                Some(Action::Alloc) => {
                    let slice = self.begin(device, entry.time_us, entry.address, entry.size, entry.stack);
                    open.insert(entry.address, slice);
                    active += size;
                }
                Some(Action::FreeCompleted) => {
                    if let Some(open) = open.remove(&entry.address) {
                        self.end(device, entry.time_us, open);
                    }
                    active -= size;
                }
                Some(Action::SegmentAlloc | Action::SegmentMap) => reserved += size,
                Some(Action::SegmentFree | Action::SegmentUnmap) => reserved -= size,
                Some(Action::Oom) => self.oom(device, entry),
                _ => continue,
            }
            if !self.counter(device, entry.time_us, active, reserved) {
                return;
            }
        }
        let mut rest: Vec<(Address, Open)> = open.into_iter().collect();
        rest.sort_unstable_by_key(|(address, _)| *address);
        rest.into_iter().for_each(|(_, open)| self.end(device, self.end_us, open));
    }

    /// The slices of what lives already.
    fn open_before(&mut self, device: usize, segments: &[Segment]) -> FxHashMap<Address, Open> {
        let mut open = FxHashMap::default();
        for block in segments.iter().flat_map(active_blocks) {
            let Block { address, requested_size, stack, .. } = block.block;
            let slice = self.begin(device, self.begin_us, address, requested_size, stack);
            open.insert(address, slice);
        }
        open
    }

    fn counter(&mut self, device: usize, time_us: i64, active: i128, reserved: i128) -> bool {
        let out = self.event("C", device, time_us);
        out.text("\"name\":\"bytes\",\"args\":{\"active\":").int(active);
        out.text(",\"reserved\":").int(reserved).text("}");
        self.end_event()
    }

    fn label(&mut self, stack: Option<StackIndex>) -> Rc<Label> {
        let stack = stack.unwrap_or(StackTable::EMPTY);
        let label = self.labels[stack.index()].get_or_insert_with(|| {
            let frame = self.snapshot.stacks.frames(stack).next();
            let name = quoted(frame.map_or("block", |frame| &frame.name));
            let place = frame.map(|frame| format!("{}:{}", frame.filename, frame.line)).unwrap_or_default();
            Rc::new(Label { name, place: quoted(&place) })
        });
        label.clone()
    }

    fn begin(
        &mut self,
        device: usize,
        time_us: i64,
        address: Address,
        bytes: u64,
        stack: Option<StackIndex>,
    ) -> Open {
        self.n_slices += 1;
        let (slice, label) = (self.n_slices, self.label(stack));
        let out = self.event("b", device, time_us);
        out.text("\"cat\":\"block\",\"id\":").int(slice).text(",\"name\":").text(&label.name);
        out.text(",\"args\":{\"address\":\"").hex(address.0).text("\",\"bytes\":").int(bytes);
        out.text(",\"from\":").text(&label.place).text("}");
        self.end_event();
        Open { slice, stack }
    }

    fn end(&mut self, device: usize, time_us: i64, open: Open) {
        let (slice, label) = (open.slice, self.label(open.stack));
        let out = self.event("e", device, time_us);
        out.text("\"cat\":\"block\",\"id\":").int(slice).text(",\"name\":").text(&label.name);
        self.end_event();
    }

    fn oom(&mut self, device: usize, entry: &TraceEntry) {
        let out = self.event("i", device, entry.time_us);
        out.text("\"name\":\"out of memory\",\"s\":\"p\",\"args\":{\"requested_bytes\":").int(entry.size);
        out.text(",\"free_bytes\":").int(entry.device_free_bytes()).text("}");
        self.end_event();
    }

    /// Scopes may overlap, so that they are asynchronous slices too, one behind the other by name.
    fn scopes(&mut self) {
        for annotation in &self.snapshot.external_annotations {
            let kind = if &*annotation.stage == "START" { "b" } else { "e" };
            let device = annotation.device.index().unwrap_or(0);
            let name = quoted(&annotation.name);
            let out = self.event(kind, device, annotation.time_us);
            out.text("\"cat\":\"scope\",\"id\":").text(&name).text(",\"name\":").text(&name);
            self.end_event();
        }
    }
}
