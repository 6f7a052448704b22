//! Writes PyTorch's dictionaries as JSON, with the text that serde makes of a snapshot.
//!
//! A million entries have a few thousand stacks, of some kilobytes each, and a handful of shapes. The text
//! of each is made once; an entry is then five numbers between texts. serde_json's type for such texts (`RawValue`)
//! would read each of them again.

use std::{
    fmt::Write as _,
    io::{self, Write},
    rc::Rc,
};

use super::text::{Made, Out, quoted};
use crate::model::{
    Field, FieldRef, Frame, Hex, Record, ShapeId, Slot, Snapshot, StackIndex, Text, TopLevel, Value,
};

pub(super) fn write(snapshot: &Snapshot, sink: &mut impl Write) -> io::Result<()> {
    let mut writer = Writer {
        snapshot,
        out: Out::new(sink),
        stacks: Made::new(snapshot.stacks.len()),
        shapes: Made::new(snapshot.shapes.len()),
    };
    match snapshot.top_level {
        TopLevel::Dictionary => writer.top(),
        TopLevel::SegmentList => writer.list(&snapshot.segments, Writer::record),
    }
    writer.out.finish()
}

/// The dictionary of a shape: the text before each field, and the field; the last part has no field.
type Template = [(String, Option<Field>)];

struct Writer<'a, W> {
    snapshot: &'a Snapshot,
    out: Out<'a, W>,
    stacks: Made,
    shapes: Made<Template>,
}

impl<'a, W: Write> Writer<'a, W> {
    fn top(&mut self) {
        let snapshot = self.snapshot;
        let template = self.template_of(&snapshot.shape.slots);
        self.dictionary(&template, |writer, field| match field {
            Field::Segments => writer.list(&snapshot.segments, Self::record),
            Field::HostSegments => writer.list(&snapshot.host_segments, Self::record),
            Field::DeviceTraces => {
                writer.list(&snapshot.device_traces, |writer, trace| writer.list(trace, Self::record));
            }
            Field::HostTraces => writer.list(&snapshot.host_traces, Self::record),
            _ => writer.list(&snapshot.external_annotations, Self::record),
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

    fn dictionary(&mut self, template: &Template, field: impl Fn(&mut Self, Field)) {
        for (text, name) in template {
            self.out.text(text);
            if let Some(name) = name {
                field(self, *name);
            }
        }
    }

    fn template(&mut self, shape: ShapeId) -> Rc<Template> {
        if let Some(template) = self.shapes.get(shape.index()) {
            return template;
        }
        let template: Rc<Template> = self.template_of(&self.snapshot.shapes.get(shape).slots).into();
        let n_bytes = template.iter().map(|(text, _)| text.len()).sum();
        self.shapes.keep_sized(shape.index(), template, n_bytes)
    }

    fn template_of(&mut self, slots: &[(Text, Slot)]) -> Vec<(String, Option<Field>)> {
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

    /// Writes a record's dictionary.
    fn record(&mut self, record: &impl Record) {
        let template = self.template(record.shape());
        self.dictionary(&template, |writer, field| writer.field(record.field(field)));
    }

    fn field(&mut self, field: FieldRef<'_>) {
        match field {
            FieldRef::Uint(int) => drop(self.out.int(int)),
            FieldRef::Int(int) => drop(self.out.int(int)),
            FieldRef::Bool(bool) => drop(self.out.text(if bool { "true" } else { "false" })),
            // Words of the format need no escaping.
            FieldRef::Word(word) => drop(self.out.text("\"").text(word.name()).text("\"")),
            FieldRef::Text(text) => drop(self.out.text(&quoted(text))),
            FieldRef::Pool(pool) => {
                self.out.text("[");
                self.out.int(pool.graph);
                self.out.text(",");
                self.out.int(pool.user);
                self.out.text("]");
            }
            FieldRef::Stack(stack) => self.stack(stack),
            FieldRef::Blocks(blocks) => self.list(blocks, Self::record),
        }
    }

    fn stack(&mut self, stack: Option<StackIndex>) {
        let Some(stack) = stack else {
            self.out.text("null");
            return;
        };
        if let Some(text) = self.stacks.get(stack.index()) {
            self.out.text(&text);
            return;
        }
        let text = self.stack_text(stack);
        if let Some(text) = text {
            let text = self.stacks.keep(stack.index(), text);
            self.out.text(&text);
            return;
        }
        // The text is too long to be kept.
        let mut before = "[";
        for frame in self.snapshot.stacks.frames(stack) {
            self.out.text(before);
            before = ",";
            let text = self.frame_text(frame);
            self.out.text(&text);
            if !self.out.spill() {
                return;
            }
        }
        self.out.text("]");
    }

    /// Returns the text of a stack; `None` if the cache is too full for it.
    fn stack_text(&mut self, stack: StackIndex) -> Option<String> {
        let snapshot = self.snapshot;
        let mut all = "[".to_owned();
        for (nth, frame) in snapshot.stacks.frames(stack).enumerate() {
            if !self.stacks.has_room(all.len() + frame.name.len() + frame.filename.len()) {
                return None;
            }
            all.push_str(if nth > 0 { "," } else { "" });
            all += &self.frame_text(frame);
        }
        all.push(']');
        self.stacks.has_room(all.len()).then_some(all)
    }

    fn frame_text(&mut self, frame: &Frame) -> String {
        let mut all = String::new();
        for (text, field) in &*self.template(frame.shape) {
            all += text;
            match field.map(|field| frame.field(field)) {
                Some(FieldRef::Text(text)) => all += &quoted(text),
                Some(FieldRef::Uint(line)) => all += itoa::Buffer::new().format(line),
                _ => {}
            }
        }
        all
    }
}

/// Adds a value, or returns why JSON cannot represent it.
fn add(text: &mut String, value: &Value) -> Result<(), &'static str> {
    match value {
        Value::None => text.push_str("null"),
        Value::Bool(bool) => text.push_str(if *bool { "true" } else { "false" }),
        Value::Int(int) => text.push_str(itoa::Buffer::new().format(*int)),
        // Rust's form of a float is valid JSON.
        Value::Float(float) if float.is_finite() => drop(write!(text, "{float:?}")),
        Value::Float(_) => text.push_str("null"),
        Value::Text(one) => text.push_str(&quoted(one)),
        Value::Big(bytes) => match value.as_unsigned() {
            Some(int) => text.push_str(itoa::Buffer::new().format(int)),
            None => text.push_str(&quoted(&Hex(bytes).to_string())),
        },
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
                    _ => return Err("a dict has a key that is not a text, which JSON cannot represent"),
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
