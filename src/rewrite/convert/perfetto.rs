//! Chrome's trace events: a process for each device, counters of its bytes, slices of its blocks and scopes.
//!
//! A block is an asynchronous slice from its alloc to its `free_completed`,
//! named by the function that asked for it. What lived before the history or
//! after it begins or ends with it. Bytes in use are those asked for, as
//! events tell them.

use std::{
    fmt,
    io::{self, Write},
    rc::Rc,
};

use rustc_hash::FxHashMap;

use crate::{
    event::Action,
    inventory::BlockState,
    rewrite::{at::segments_at, trace::Trace},
    snapshot::{Segment, Snapshot, StackIndex, Stacks, TraceEntry},
};

pub(super) fn write(snapshot: &Snapshot, sink: &mut impl Write) -> io::Result<()> {
    let times = snapshot.device_traces.iter().flatten().map(|entry| entry.time_us);
    let mut writer = Writer {
        snapshot,
        sink,
        is_first: true,
        n_slices: 0,
        labels: vec![None; snapshot.stacks.len()],
        begin_us: times.clone().min().unwrap_or(0),
        end_us: times.max().unwrap_or(0),
    };
    write!(writer.sink, "{{\"displayTimeUnit\":\"ms\",\"traceEvents\":[")?;
    for device in 0..snapshot.device_traces.len() {
        writer.device(device)?;
    }
    writer.scopes()?;
    writeln!(writer.sink, "\n]}}")
}

/// A text as JSON has it.
struct Quoted<'a>(&'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("\"")?;
        for c in self.0.chars() {
            match c {
                '"' | '\\' => write!(f, "\\{c}")?,
                c if c < ' ' => write!(f, "\\u{:04x}", u32::from(c))?,
                c => write!(f, "{c}")?,
            }
        }
        f.write_str("\"")
    }
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
    sink: &'a mut W,
    is_first: bool,
    n_slices: u64,
    /// By the number of the stack.
    labels: Vec<Option<Rc<Label>>>,
    begin_us: i64,
    end_us: i64,
}

impl<W: Write> Writer<'_, W> {
    /// One event; `rest` are its further keys.
    fn event(&mut self, kind: char, device: usize, time_us: i64, rest: fmt::Arguments<'_>) -> io::Result<()> {
        let comma = if std::mem::take(&mut self.is_first) { "" } else { "," };
        let time = time_us.saturating_sub(self.begin_us);
        write!(self.sink, "{comma}\n{{\"ph\":\"{kind}\",\"pid\":{device},\"tid\":0,\"ts\":{time},{rest}}}")
    }

    fn device(&mut self, device: usize) -> io::Result<()> {
        let trace = &self.snapshot.device_traces[device];
        let number = i64::try_from(device).unwrap_or(i64::MAX);
        let mut shapes = self.snapshot.shapes.clone();
        let all = Trace::Of(self.snapshot, device);
        let start = segments_at(&self.snapshot.segments, number, all, 0, &mut shapes);
        if trace.is_empty() && start.is_empty() {
            return Ok(());
        }
        let name = Quoted(&format!("device {device}")).to_string();
        self.event(
            'M',
            device,
            self.begin_us,
            format_args!("\"name\":\"process_name\",\"args\":{{\"name\":{name}}}"),
        )?;
        let mut open = self.open_before(device, &start)?;
        let mut reserved: i128 = start.iter().map(|segment| i128::from(segment.total_size)).sum();
        let mut active: i128 = start.iter().map(|segment| i128::from(segment.requested_size)).sum();
        self.counter(device, self.begin_us, active, reserved)?;
        for entry in trace {
            let size = i128::from(entry.size);
            match entry.action {
                Some(Action::Alloc) => {
                    let slice = self.begin(device, entry.time_us, entry.address, entry.size, entry.stack)?;
                    open.insert(entry.address, slice);
                    active += size;
                }
                Some(Action::FreeCompleted) => {
                    if let Some(open) = open.remove(&entry.address) {
                        self.end(device, entry.time_us, open)?;
                    }
                    active -= size;
                }
                Some(Action::SegmentAlloc | Action::SegmentMap) => reserved += size,
                Some(Action::SegmentFree | Action::SegmentUnmap) => reserved -= size,
                Some(Action::Oom) => self.oom(device, entry)?,
                _ => continue,
            }
            self.counter(device, entry.time_us, active, reserved)?;
        }
        let mut rest: Vec<(u64, Open)> = open.into_iter().collect();
        rest.sort_unstable_by_key(|(address, _)| *address);
        rest.into_iter().try_for_each(|(_, open)| self.end(device, self.end_us, open))
    }

    /// The slices of what lives already.
    fn open_before(&mut self, device: usize, segments: &[Segment]) -> io::Result<FxHashMap<u64, Open>> {
        let mut open = FxHashMap::default();
        for segment in segments {
            let mut address = segment.address;
            for block in &segment.blocks {
                if block.state.is_some_and(BlockState::is_active) {
                    let slice =
                        self.begin(device, self.begin_us, address, block.requested_size, block.stack)?;
                    open.insert(address, slice);
                }
                address = address.saturating_add(block.size);
            }
        }
        Ok(open)
    }

    fn counter(&mut self, device: usize, time_us: i64, active: i128, reserved: i128) -> io::Result<()> {
        let values = format_args!("\"active\":{active},\"reserved\":{reserved}");
        self.event('C', device, time_us, format_args!("\"name\":\"bytes\",\"args\":{{{values}}}"))
    }

    fn label(&mut self, stack: Option<StackIndex>) -> Rc<Label> {
        let stack = stack.unwrap_or(Stacks::EMPTY);
        let label = self.labels[stack.index()].get_or_insert_with(|| {
            let frame = self.snapshot.stacks.frames(stack).next();
            let name = Quoted(frame.map_or("block", |frame| &frame.name)).to_string();
            let place = frame.map(|frame| format!("{}:{}", frame.filename, frame.line)).unwrap_or_default();
            Rc::new(Label { name, place: Quoted(&place).to_string() })
        });
        label.clone()
    }

    fn begin(
        &mut self,
        device: usize,
        time_us: i64,
        address: u64,
        bytes: u64,
        stack: Option<StackIndex>,
    ) -> io::Result<Open> {
        self.n_slices += 1;
        let (slice, label) = (self.n_slices, self.label(stack));
        let Label { name, place } = &*label;
        let args = format_args!("\"address\":\"{address:#x}\",\"bytes\":{bytes},\"from\":{place}");
        self.event(
            'b',
            device,
            time_us,
            format_args!("\"cat\":\"block\",\"id\":{slice},\"name\":{name},\"args\":{{{args}}}"),
        )?;
        Ok(Open { slice, stack })
    }

    fn end(&mut self, device: usize, time_us: i64, open: Open) -> io::Result<()> {
        let (slice, label) = (open.slice, self.label(open.stack));
        let name = &label.name;
        self.event('e', device, time_us, format_args!("\"cat\":\"block\",\"id\":{slice},\"name\":{name}"))
    }

    fn oom(&mut self, device: usize, entry: &TraceEntry) -> io::Result<()> {
        let (asked, free) = (entry.size, entry.address);
        let args = format_args!("\"requested_bytes\":{asked},\"free_bytes\":{free}");
        let rest = format_args!("\"name\":\"out of memory\",\"s\":\"p\",\"args\":{{{args}}}");
        self.event('i', device, entry.time_us, rest)
    }

    /// Scopes may overlap, so that they are asynchronous slices too, one behind the other by name.
    fn scopes(&mut self) -> io::Result<()> {
        for annotation in &self.snapshot.external_annotations {
            let kind = if &*annotation.stage == "START" { 'b' } else { 'e' };
            let device = usize::try_from(annotation.device).unwrap_or(0);
            let name = Quoted(&annotation.name).to_string();
            let rest = format_args!("\"cat\":\"scope\",\"id\":{name},\"name\":{name}");
            self.event(kind, device, annotation.time_us, rest)?;
        }
        Ok(())
    }
}
