//! Writes events as comma-separated values (RFC 4180), for spreadsheets and data frames.

use std::{io, rc::Rc};

use super::text::{Made, Out};
use crate::{
    analysis::ShownFrames,
    history::{ByDevice, Scopes},
    model::{Frame, FrameIndex, Snapshot, StackIndex, TraceEntry},
    words::Action,
};

pub(super) fn write(snapshot: &Snapshot, has_stacks: bool, sink: &mut impl io::Write) -> io::Result<()> {
    let mut out = Out::new(sink);
    let stacks = if has_stacks { ",frames" } else { "" };
    out.text("device,event,time_us,action,address,size_bytes,stream,scope,site,stack")
        .text(stacks)
        .text(",device_free_bytes\n");
    let mut cells = Cells::new(snapshot, has_stacks);
    let records = ByDevice::new(snapshot);
    for (device, trace) in snapshot.device_traces.iter().enumerate() {
        let scopes = Scopes::of_device(&records, device.into());
        for (index, entry) in trace.iter().enumerate() {
            out.int(device).text(",").int(index).text(",").int(entry.time_us).text(",");
            out.text(&cells.action(entry)).text(",");
            // An `oom` is at no address: its record has the device's free bytes instead.
            let is_oom = entry.action == Some(Action::Oom);
            if !is_oom {
                out.hex(entry.address.0);
            }
            out.text(",").int(entry.size).text(",").int(entry.stream.0).text(",");
            cells.scope(index, entry, &scopes, &mut out);
            out.text(",");
            cells.stack(entry.stack, &mut out);
            out.text(",");
            if is_oom {
                out.int(entry.device_free_bytes());
            }
            out.text("\n");
            if !out.spill() {
                return out.finish();
            }
        }
    }
    out.finish()
}

/// The texts of cells. Many lines share them, so each text is created once, if all of them fit in memory.
struct Cells<'a> {
    snapshot: &'a Snapshot,
    shown: ShownFrames<'a>,
    has_stacks: bool,
    /// By shape: actions that PyTorch does not know, and scopes.
    actions: Made,
    scopes: Made,
    /// By stack, the cells of its lines.
    stacks: Made,
    known: [Rc<str>; Action::ALL.len()],
}

impl<'a> Cells<'a> {
    fn new(snapshot: &'a Snapshot, has_stacks: bool) -> Cells<'a> {
        Cells {
            snapshot,
            shown: ShownFrames::new(snapshot),
            has_stacks,
            actions: Made::new(snapshot.shapes.len()),
            scopes: Made::new(snapshot.shapes.len()),
            stacks: Made::new(snapshot.stacks.len()),
            known: std::array::from_fn(|index| Action::ALL[index].name().into()),
        }
    }

    fn action(&mut self, entry: &TraceEntry) -> Rc<str> {
        if let Some(action) = entry.action {
            return self.known[action as usize].clone();
        }
        let (snapshot, number) = (self.snapshot, entry.shape.index());
        let text = || quoted(snapshot.shapes.get(entry.shape).text("action").unwrap_or_default());
        self.actions.get(number).unwrap_or_else(|| self.actions.keep(number, text()))
    }

    /// Writes the scope of an entry; of an `annotate`, the name that it gives a block.
    fn scope<W: io::Write>(
        &mut self,
        number: usize,
        entry: &TraceEntry,
        scopes: &Scopes<'_>,
        out: &mut Out<'_, W>,
    ) {
        if scopes.are_annotated() && entry.action != Some(Action::Annotate) {
            return cell(out, |take| scopes.of_entry(number).pieces().for_each(take));
        }
        let (snapshot, number) = (self.snapshot, entry.shape.index());
        let text = || quoted(snapshot.user_metadata(entry));
        out.text(&self.scopes.get(number).unwrap_or_else(|| self.scopes.keep(number, text())));
    }

    /// Writes the call that requested the memory, the number of the stack, and its frames, innermost first.
    fn stack<W: io::Write>(&mut self, stack: Option<StackIndex>, out: &mut Out<'_, W>) {
        let Some(stack) = stack else {
            out.text(if self.has_stacks { ",," } else { "," });
            return;
        };
        if let Some(text) = self.stacks.get(stack.index()) {
            out.text(&text);
            return;
        }
        let cells = StackCells {
            snapshot: self.snapshot,
            stack,
            innermost: self.shown.identifying(stack).next(),
            frames: self.has_stacks.then(|| self.snapshot.stacks.members(stack)),
        };
        if !self.stacks.has_room(cells.n_bytes()) {
            return cells.write(out);
        }
        let mut text = Vec::new();
        let mut made = Out::new(&mut text);
        cells.write(&mut made);
        // A vector takes every text.
        let _ = made.finish();
        let text = String::from_utf8(text).unwrap_or_default();
        out.text(&self.stacks.keep(stack.index(), text));
    }
}

/// The cells of a stack.
struct StackCells<'a> {
    snapshot: &'a Snapshot,
    stack: StackIndex,
    /// The call that requested the memory.
    innermost: Option<FrameIndex>,
    /// All frames, if they are written too.
    frames: Option<&'a [FrameIndex]>,
}

impl StackCells<'_> {
    fn frame(&self, frame: FrameIndex) -> &Frame {
        self.snapshot.stacks.frame(frame)
    }

    /// Returns about how many bytes the cells have.
    fn n_bytes(&self) -> usize {
        let frames = self.frames.unwrap_or_default();
        let all = self.innermost.iter().chain(frames).map(|frame| self.frame(*frame));
        all.fold(0, |sum: usize, frame| sum.saturating_add(frame.filename.len() + frame.name.len() + 8))
    }

    fn write<W: io::Write>(&self, out: &mut Out<'_, W>) {
        cell(out, |take| self.innermost.into_iter().for_each(|frame| pieces(self.frame(frame), take)));
        out.text(",").int(self.stack.index());
        if let Some(frames) = self.frames {
            out.text(",");
            cell(out, |take| {
                for (nth, frame) in frames.iter().enumerate() {
                    take(if nth > 0 { ";" } else { "" });
                    pieces(self.frame(*frame), take);
                }
            });
        }
    }
}

/// Calls `take` with the pieces of a frame's text: file, line and name.
fn pieces(frame: &Frame, take: &mut dyn FnMut(&str)) {
    let mut line = itoa::Buffer::new();
    [&*frame.filename, ":", line.format(frame.line), ":", &*frame.name].into_iter().for_each(take);
}

/// Writes a field whose text is made of pieces, in quotes if it needs them. `each` calls its argument with each piece.
fn cell<W: io::Write>(out: &mut Out<'_, W>, each: impl Fn(&mut dyn FnMut(&str))) {
    let mut is_quoted = false;
    each(&mut |piece| is_quoted |= needs_quotes(piece));
    if !is_quoted {
        return each(&mut |piece| {
            out.text(piece).spill();
        });
    }
    out.text("\"");
    each(&mut |piece| {
        for (nth, part) in piece.split('"').enumerate() {
            out.text(if nth > 0 { "\"\"" } else { "" }).text(part).spill();
        }
    });
    out.text("\"");
}

fn needs_quotes(text: &str) -> bool {
    text.contains([',', '"', '\n', '\r'])
}

/// Puts a field in quotes if it needs them.
fn quoted(text: &str) -> String {
    if needs_quotes(text) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text.to_owned() }
}
