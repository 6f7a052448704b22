//! Writes Chrome's trace events: a process for each device, counters of its bytes, slices for its blocks and scopes.
//!
//! A block is an asynchronous slice from its alloc to its `free_completed`, named by the innermost
//! function that identifies its allocation. A block in use before or after the history begins or ends with it.
//! Bytes in use are the requested bytes of the events.

use std::{
    io::{self, Write},
    rc::Rc,
};

use super::text::{Made, Out, quoted};
use crate::{
    analysis::{DeviceHistory, Histories, ShownFrames, Totals},
    history::{Life, Moment, Times, time_span},
    model::{Snapshot, StackIndex, StackTable, TraceEntry},
    words::Action,
};

pub(super) fn write(snapshot: &Snapshot, sink: &mut impl Write) -> io::Result<()> {
    let (begin_us, end_us) = time_span(snapshot.device_traces.iter().flatten()).unwrap_or_default();
    let mut writer = Writer {
        snapshot,
        histories: Histories::new(snapshot),
        shown: ShownFrames::new(snapshot),
        out: Out::new(sink),
        is_first: true,
        n_slices: 0,
        labels: Made::new(snapshot.stacks.len()),
        begin_us,
        end_us,
    };
    writer.out.text("{\"displayTimeUnit\":\"ms\",\"traceEvents\":[");
    for device in 0..snapshot.device_traces.len() {
        writer.device(device);
    }
    writer.scopes();
    writer.out.text("\n]}\n");
    writer.out.finish()
}

/// The name of a stack's slices and the place in the source, as JSON.
struct Label {
    name: String,
    place: String,
}

struct Writer<'a, W> {
    snapshot: &'a Snapshot,
    histories: Histories<'a>,
    shown: ShownFrames<'a>,
    out: Out<'a, W>,
    is_first: bool,
    n_slices: u64,
    /// By the number of the stack.
    labels: Made<Label>,
    begin_us: i64,
    end_us: i64,
}

impl<'a, W: Write> Writer<'a, W> {
    /// Starts an event, up to its further keys; [`Writer::end_event`] follows those.
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

    /// Ends an event; returns whether the sink still accepts events.
    fn end_event(&mut self) -> bool {
        self.out.text("}");
        self.out.spill()
    }

    fn device(&mut self, device: usize) {
        let history = self.histories.of(device);
        if history.entries().is_empty() && history.segments().is_empty() {
            return;
        }
        let name = quoted(&format!("device {device}"));
        let out = self.event("M", device, self.begin_us);
        out.text("\"name\":\"process_name\",\"args\":{\"name\":").text(&name).text("}");
        self.end_event();
        // The slice of each life; 0 before it begins and after it ends.
        let mut slices = vec![0; history.lives().len()];
        for number in lives_at_start(&history) {
            slices[number] = self.begin(device, self.begin_us, &history.lives()[number]);
        }
        // A slice must not end before it begins.
        let times = Times::new(history.entries()).rising();
        for totals in history.totals() {
            let Some((index, time_us)) =
                totals.moment.entry().and_then(|index| Some((index, times.get(index)?)))
            else {
                self.counter(device, self.begin_us, &totals);
                continue;
            };
            let entry = &history.entries()[index];
            let life =
                history.life_number(index).map(|number| (&history.lives()[number], &mut slices[number]));
            match (entry.action, life) {
                (Some(Action::Alloc), Some((life, slice))) => {
                    *slice = self.begin(device, time_us, life);
                }
                // In a trace without completions a life ends with the request of its free.
                (Some(Action::FreeCompleted | Action::FreeRequested), Some((life, slice)))
                    if *slice != 0 && life.until == totals.moment =>
                {
                    self.end(device, time_us, life, std::mem::take(slice));
                }
                (Some(Action::Oom), _) => self.oom(device, entry, time_us),
                (Some(Action::FreeRequested | Action::Snapshot | Action::Annotate) | None, _) => continue,
                _ => {}
            }
            if !self.counter(device, time_us, &totals) {
                return;
            }
        }
        self.end_rest(device, &history, &times, &slices);
    }

    /// Ends the slices of blocks without a completion: at the moment that shows that they are free, or at
    /// the end of the history.
    fn end_rest(&mut self, device: usize, history: &DeviceHistory<'_>, times: &Times<'_>, slices: &[u64]) {
        let rest = history.lives().iter().zip(slices).filter(|(_, slice)| **slice != 0);
        let mut rest: Vec<(&Life, u64)> = rest.map(|(life, slice)| (life, *slice)).collect();
        rest.sort_by_key(|(life, _)| life.address);
        for (life, slice) in rest {
            let until_us = life.until.entry().and_then(|index| times.get(index));
            self.end(device, until_us.unwrap_or(self.end_us), life, slice);
        }
    }

    fn counter(&mut self, device: usize, time_us: i64, totals: &Totals) -> bool {
        let out = self.event("C", device, time_us);
        out.text("\"name\":\"bytes\",\"args\":{\"active\":").int(totals.active_bytes);
        out.text(",\"reserved\":").int(totals.reserved_bytes).text("}");
        self.end_event()
    }

    fn label(&mut self, stack: Option<StackIndex>) -> Rc<Label> {
        let stack = stack.unwrap_or(StackTable::EMPTY);
        if let Some(label) = self.labels.get(stack.index()) {
            return label;
        }
        let frame = self.shown.innermost(stack);
        let name = quoted(frame.map_or("block", |frame| &frame.name));
        let place = frame.map(|frame| format!("{}:{}", frame.filename, frame.line)).unwrap_or_default();
        let label = Label { name, place: quoted(&place) };
        let n_bytes = label.name.len() + label.place.len();
        self.labels.keep_sized(stack.index(), label.into(), n_bytes)
    }

    /// Begins a slice and returns its number.
    fn begin(&mut self, device: usize, time_us: i64, life: &Life) -> u64 {
        self.n_slices += 1;
        let (slice, label) = (self.n_slices, self.label(life.stack));
        let out = self.event("b", device, time_us);
        out.text("\"cat\":\"block\",\"id\":").int(slice).text(",\"name\":").text(&label.name);
        out.text(",\"args\":{\"address\":\"").hex(life.address.0).text("\",\"bytes\":");
        out.int(life.requested_bytes).text(",\"from\":").text(&label.place).text("}");
        self.end_event();
        slice
    }

    fn end(&mut self, device: usize, time_us: i64, life: &Life, slice: u64) {
        let label = self.label(life.stack);
        let out = self.event("e", device, time_us);
        out.text("\"cat\":\"block\",\"id\":").int(slice).text(",\"name\":").text(&label.name);
        self.end_event();
    }

    fn oom(&mut self, device: usize, entry: &TraceEntry, time_us: i64) {
        let out = self.event("i", device, time_us);
        out.text("\"name\":\"out of memory\",\"s\":\"p\",\"args\":{\"requested_bytes\":").int(entry.size);
        out.text(",\"free_bytes\":").int(entry.device_free_bytes()).text("}");
        self.end_event();
    }

    /// Writes scopes. They may overlap, so they are asynchronous slices too, in one row for each name.
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

/// The lives of the blocks in use before the first entry, by address.
fn lives_at_start(history: &DeviceHistory<'_>) -> Vec<usize> {
    let lives = history.lives();
    let is_active = |number: &usize| lives[*number].is_active_at(Moment::START);
    let mut numbers: Vec<usize> = (0..lives.len()).filter(is_active).collect();
    numbers.sort_by_key(|number| lives[*number].address);
    numbers
}
