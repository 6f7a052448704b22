//! Writes events as comma-separated values (RFC 4180), for spreadsheets and data frames.

use std::{io, rc::Rc};

use super::text::Out;
use crate::{
    analysis::ShownFrames,
    event::Action,
    history::Scopes,
    snapshot::{Frame, Snapshot, StackIndex, TraceEntry},
};

pub(super) fn write(snapshot: &Snapshot, has_stacks: bool, sink: &mut impl io::Write) -> io::Result<()> {
    let mut out = Out::new(sink);
    let stacks = if has_stacks { ",frames" } else { "" };
    out.text("device,event,time_us,action,address,size_bytes,stream,scope,site,stack")
        .text(stacks)
        .text(",device_free_bytes\n");
    let mut cells = Cells::new(snapshot, has_stacks);
    for (device, trace) in snapshot.device_traces.iter().enumerate() {
        let scopes = Scopes::new(snapshot, device.into());
        for (index, entry) in trace.iter().enumerate() {
            out.int(device).text(",").int(index).text(",").int(entry.time_us).text(",");
            out.text(&cells.action(entry)).text(",");
            // An `oom` is at no address: its record has the device's free bytes instead.
            let is_oom = entry.action == Some(Action::Oom);
            if !is_oom {
                out.hex(entry.address.0);
            }
            out.text(",").int(entry.size).text(",").int(entry.stream.0).text(",");
            out.text(&cells.scope(index, entry, &scopes)).text(",").text(&cells.stack(entry.stack)).text(",");
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

/// The texts of cells. Many lines have the same ones, so each text is formatted once.
struct Cells<'a> {
    snapshot: &'a Snapshot,
    shown: ShownFrames<'a>,
    has_stacks: bool,
    /// By shape: actions that PyTorch does not know, and scopes.
    actions: Vec<Option<Rc<str>>>,
    scopes: Vec<Option<Rc<str>>>,
    /// By stack, the cells of its lines.
    stacks: Vec<Option<Rc<str>>>,
    known: [Rc<str>; Action::ALL.len()],
    none: Rc<str>,
}

impl<'a> Cells<'a> {
    fn new(snapshot: &'a Snapshot, has_stacks: bool) -> Cells<'a> {
        Cells {
            snapshot,
            shown: ShownFrames::new(snapshot),
            has_stacks,
            actions: vec![None; snapshot.shapes.len()],
            scopes: vec![None; snapshot.shapes.len()],
            stacks: vec![None; snapshot.stacks.len()],
            known: std::array::from_fn(|index| Action::ALL[index].name().into()),
            none: if has_stacks { ",," } else { "," }.into(),
        }
    }

    fn action(&mut self, entry: &TraceEntry) -> Rc<str> {
        if let Some(action) = entry.action {
            return self.known[action as usize].clone();
        }
        let text = || self.snapshot.shapes.get(entry.shape).text("action").unwrap_or_default();
        self.actions[entry.shape.index()].get_or_insert_with(|| quoted(text()).into()).clone()
    }

    /// The scope of an entry; of an `annotate`, the name that it gives a block.
    fn scope(&mut self, number: usize, entry: &TraceEntry, scopes: &Scopes<'_>) -> Rc<str> {
        if scopes.are_annotated() && entry.action != Some(Action::Annotate) {
            return quoted(scopes.of_entry(number)).into();
        }
        let text = || self.snapshot.user_metadata(entry);
        self.scopes[entry.shape.index()].get_or_insert_with(|| quoted(text()).into()).clone()
    }

    /// The call that requested the memory, the number of the stack, and its frames, innermost first.
    fn stack(&mut self, stack: Option<StackIndex>) -> Rc<str> {
        let Some(stack) = stack else { return self.none.clone() };
        let (snapshot, shown, has_stacks) = (self.snapshot, &self.shown, self.has_stacks);
        let make = || {
            let innermost = shown.identifying(stack).next();
            let site = innermost.map(|frame| text(snapshot.stacks.frame(frame))).unwrap_or_default();
            let mut cells = format!("{},{}", quoted(&site), stack.index());
            if has_stacks {
                let frames: Vec<String> = snapshot.stacks.frames(stack).map(text).collect();
                cells = format!("{cells},{}", quoted(&frames.join(";")));
            }
            cells.into()
        };
        self.stacks[stack.index()].get_or_insert_with(make).clone()
    }
}

fn text(frame: &Frame) -> String {
    format!("{}:{}:{}", frame.filename, frame.line, frame.name)
}

/// Puts a field in quotes if it needs them.
fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}
