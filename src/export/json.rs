//! PyTorch's dictionaries as JSON: what serde makes of a snapshot, with the text of each stack made once.
//!
//! A million entries have a few thousand stacks, of some kilobytes each, and a
//! handful of shapes. Both become texts before they are written; an entry is
//! then five numbers between texts. A serializer of serde's has no way to be
//! given a text that is JSON already.

use std::{
    fmt::Write as _,
    io::{self, Write},
    rc::Rc,
};

use super::text::{Out, quoted};
use crate::snapshot::{
    Annotation, Block, Field, Frame, Hex, Segment, ShapeId, Slot, Snapshot, StackIndex, TopLevel, TraceEntry,
    Value,
};

pub(super) fn write(snapshot: &Snapshot, sink: &mut impl Write) -> io::Result<()> {
    let mut writer = Writer {
        snapshot,
        out: Out::new(sink),
        stacks: vec![None; snapshot.stacks.len()],
        shapes: vec![None; snapshot.shapes.len()],
    };
    match snapshot.top_level {
        TopLevel::Dictionary => writer.top(),
        TopLevel::SegmentList => writer.list(&snapshot.segments, Writer::segment),
    }
    writer.out.finish()
}

/// A dictionary of a shape: what stands before each field, and the field; the last has none.
type Template = [(String, Option<Field>)];

struct Writer<'a, W> {
    snapshot: &'a Snapshot,
    out: Out<'a, W>,
    stacks: Vec<Option<Rc<str>>>,
    shapes: Vec<Option<Rc<Template>>>,
}

impl<'a, W: Write> Writer<'a, W> {
    fn top(&mut self) {
        let snapshot = self.snapshot;
        let template = self.template_of(&snapshot.shape.slots);
        self.record(&template, |writer, field| match field {
            Field::Segments => writer.list(&snapshot.segments, Self::segment),
            Field::HostSegments => writer.list(&snapshot.host_segments, Self::segment),
            Field::DeviceTraces => {
                writer.list(&snapshot.device_traces, |writer, trace| writer.list(trace, Self::entry));
            }
            Field::HostTraces => writer.list(&snapshot.host_traces, Self::entry),
            _ => writer.list(&snapshot.external_annotations, Self::annotation),
        });
    }

    fn list<T>(&mut self, all: &[T], each: impl Fn(&mut Self, &T)) {
        let mut before = "[";
        for one in all {
            self.out.text(before);
            before = ",";
            each(self, one);
            if !self.out.spill() {
                return;
            }
        }
        self.out.text(if all.is_empty() { "[]" } else { "]" });
    }

    fn record(&mut self, template: &Template, field: impl Fn(&mut Self, Field)) {
        for (text, name) in template {
            self.out.text(text);
            if let Some(name) = name {
                field(self, *name);
            }
        }
    }

    fn template(&mut self, shape: ShapeId) -> Rc<Template> {
        if let Some(template) = &self.shapes[shape.index()] {
            return template.clone();
        }
        let template: Rc<Template> = self.template_of(&self.snapshot.shapes.get(shape).slots).into();
        self.shapes[shape.index()] = Some(template.clone());
        template
    }

    fn template_of(&mut self, slots: &[(crate::snapshot::Text, Slot)]) -> Vec<(String, Option<Field>)> {
        let mut template = Vec::new();
        let mut text = "{".to_owned();
        for (nth, (key, slot)) in slots.iter().enumerate() {
            if nth > 0 {
                text.push(',');
            }
            text += &quoted(key);
            text.push(':');
            match slot {
                Slot::Field(field) => template.push((std::mem::take(&mut text), Some(*field))),
                Slot::Value(value) => {
                    if let Err(what) = add(&mut text, value) {
                        self.out.fail(io::Error::new(io::ErrorKind::InvalidData, what));
                    }
                }
            }
        }
        text.push('}');
        template.push((text, None));
        template
    }

    fn entry(&mut self, entry: &TraceEntry) {
        let template = self.template(entry.shape);
        self.record(&template, |writer, field| match field {
            Field::Action => writer.name(entry.action.map(|action| action.name())),
            Field::Addr | Field::DeviceFree => writer.unsigned(entry.address),
            Field::Size => writer.unsigned(entry.size),
            Field::Stream => {
                writer.out.int(entry.stream.0);
            }
            Field::TimeUs => {
                writer.out.int(entry.time_us);
            }
            _ => writer.stack(entry.stack),
        });
    }

    fn block(&mut self, block: &Block) {
        let template = self.template(block.shape);
        self.record(&template, |writer, field| match field {
            Field::Address => writer.unsigned(block.address),
            Field::Size => writer.unsigned(block.size),
            Field::RequestedSize => writer.unsigned(block.requested_size),
            Field::State => writer.name(block.state.map(|state| state.name())),
            _ => writer.stack(block.stack),
        });
    }

    fn segment(&mut self, segment: &Segment) {
        let template = self.template(segment.shape);
        self.record(&template, |writer, field| match field {
            Field::Device => {
                writer.out.int(segment.device.0);
            }
            Field::Address => writer.unsigned(segment.address),
            Field::TotalSize => writer.unsigned(segment.total_size),
            Field::AllocatedSize => writer.unsigned(segment.allocated_size),
            Field::ActiveSize => writer.unsigned(segment.active_size),
            Field::RequestedSize => writer.unsigned(segment.requested_size),
            Field::Stream => {
                writer.out.int(segment.stream.0);
            }
            Field::SegmentType => writer.name(segment.kind.map(|kind| kind.name())),
            Field::SegmentPoolId => {
                writer.out.text("[");
                writer.unsigned(segment.pool.graph);
                writer.out.text(",");
                writer.unsigned(segment.pool.user);
                writer.out.text("]");
            }
            Field::IsExpandable => {
                writer.out.text(if segment.is_expandable { "true" } else { "false" });
            }
            Field::Blocks => writer.list(&segment.blocks, Self::block),
            _ => writer.stack(segment.stack),
        });
    }

    fn annotation(&mut self, annotation: &Annotation) {
        let template = self.template(annotation.shape);
        self.record(&template, |writer, field| match field {
            Field::Stage => {
                writer.out.text(&quoted(&annotation.stage));
            }
            Field::Name => {
                writer.out.text(&quoted(&annotation.name));
            }
            Field::Device => {
                writer.out.int(annotation.device.0);
            }
            _ => {
                writer.out.int(annotation.time_us);
            }
        });
    }

    /// A number that is a text where it needs the 64th bit, as serde has it.
    fn unsigned(&mut self, int: u64) {
        match i64::try_from(int) {
            Ok(int) => self.out.int(int),
            Err(_) => self.out.text("\"0x00").text(&format!("{int:016x}")).text("\""),
        };
    }

    /// A word of the format, in which nothing needs escaping.
    fn name(&mut self, name: Option<&str>) {
        self.out.text("\"").text(name.unwrap_or_default()).text("\"");
    }

    fn stack(&mut self, stack: Option<StackIndex>) {
        let Some(stack) = stack else {
            self.out.text("null");
            return;
        };
        if self.stacks[stack.index()].is_none() {
            let text = self.stack_text(stack);
            self.stacks[stack.index()] = Some(text.into());
        }
        if let Some(text) = &self.stacks[stack.index()] {
            self.out.text(text);
        }
    }

    fn stack_text(&mut self, stack: StackIndex) -> String {
        let snapshot = self.snapshot;
        let frames: Vec<String> = snapshot.stacks.frames(stack).map(|frame| self.frame_text(frame)).collect();
        format!("[{}]", frames.join(","))
    }

    fn frame_text(&mut self, frame: &Frame) -> String {
        let mut all = String::new();
        for (text, field) in &*self.template(frame.shape) {
            all += text;
            match field {
                Some(Field::Name) => all += &quoted(&frame.name),
                Some(Field::Filename) => all += &quoted(&frame.filename),
                Some(_) => all += itoa::Buffer::new().format(frame.line),
                None => {}
            }
        }
        all
    }
}

/// Adds a value, or says why JSON has none like it.
fn add(text: &mut String, value: &Value) -> Result<(), &'static str> {
    match value {
        Value::None => text.push_str("null"),
        Value::Bool(bool) => text.push_str(if *bool { "true" } else { "false" }),
        Value::Int(int) => text.push_str(itoa::Buffer::new().format(*int)),
        // JSON takes Rust's own form of a float.
        Value::Float(float) if float.is_finite() => drop(write!(text, "{float:?}")),
        Value::Float(_) => text.push_str("null"),
        Value::Text(one) => text.push_str(&quoted(one)),
        Value::Big(bytes) => text.push_str(&quoted(&Hex(bytes).to_string())),
        Value::Bytes(bytes) => add_list(text, bytes.iter().map(|byte| Value::Int(i64::from(*byte))))?,
        Value::List(all) | Value::Tuple(all) => add_list(text, all.iter().cloned())?,
        Value::Dict(pairs) => {
            for (nth, (key, value)) in pairs.iter().enumerate() {
                text.push(if nth == 0 { '{' } else { ',' });
                match key {
                    Value::Text(_) | Value::Big(_) => add(text, key)?,
                    Value::Int(_) | Value::Bool(_) => {
                        text.push('"');
                        add(text, key)?;
                        text.push('"');
                    }
                    _ => return Err("a dict has a key that is no text, which JSON cannot have"),
                }
                text.push(':');
                add(text, value)?;
            }
            text.push_str(if pairs.is_empty() { "{}" } else { "}" });
        }
    }
    Ok(())
}

fn add_list(text: &mut String, all: impl Iterator<Item = Value>) -> Result<(), &'static str> {
    text.push('[');
    for (nth, value) in all.enumerate() {
        if nth > 0 {
            text.push(',');
        }
        add(text, &value)?;
    }
    text.push(']');
    Ok(())
}
