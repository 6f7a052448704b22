//! The writer: streams a snapshot as a pickle of protocol 4, sharing everything that may be shared.
//!
//! ```text
//! PROTO 4 } ( key value … u .
//! first use of a shared value   its bytes, BINPUT n or LONG_BINPUT n
//! every other use               BINGET n or LONG_BINGET n
//! ```
//!
//! Texts, frames and stacks are shared; the 256 most used have numbers of one
//! byte. Dictionaries of entries, blocks and segments never are: the web
//! viewer changes them (docs/snapshot-format.md 3.3). FRAME is not written,
//! because its length precedes its content; readers do not need it.

#![forbid(unsafe_code)]

use std::{
    io::{self, Write},
    rc::Rc,
};

use serde::Serialize;

use super::{
    census::{Census, MemoEntry, NO_ID},
    entry_template::EntryTemplate,
    out::Out,
    template::Template,
};
use crate::{
    model::{
        Annotation, Block, Field, FieldRef, FrameIndex, Record, Segment, Shape, ShapeId, Slot, Snapshot,
        SnapshotSource, StackIndex, StackTable, Text, TopLevel, TraceEntry, Value,
    },
    pickle::opcode,
    words::{DeviceId, SeededMap},
};

/// The largest batch that the viewer always accepts, which CPython writes too.
const BATCH: usize = 1000;

/// The most templates that are kept. Recorders' files have a handful of shapes.
const MAX_TEMPLATES: usize = 1 << 14;

/// Writes a snapshot.
pub(in crate::pickle) fn write(document: &dyn SnapshotSource, sink: impl Write) -> io::Result<()> {
    let snapshot = document.head();
    let mut writer = Writer {
        document,
        snapshot,
        census: Census::new(document),
        values: SeededMap::default(),
        templates: vec![None; snapshot.shapes.len()],
        entry_templates: (0..snapshot.shapes.len()).map(|_| None).collect(),
        n_templates: 0,
        out: Out::new(sink),
    };
    writer.out.bytes(&[opcode::PROTO, 4]);
    match snapshot.top_level {
        TopLevel::Dictionary => writer.top(),
        TopLevel::SegmentList => writer.list(&snapshot.segments, Writer::segment),
    }
    writer.out.op(opcode::STOP);
    writer.out.finish()?;
    document.check()
}

struct Writer<'a, W> {
    document: &'a dyn SnapshotSource,
    /// The head of the source.
    snapshot: &'a Snapshot,
    census: Census<'a>,
    /// Containers that are in a shape, with their numbers.
    values: SeededMap<&'a Value, u32>,
    templates: Vec<Option<Rc<Template>>>,
    /// For the shapes of entries whose fields are in the usual order.
    entry_templates: Vec<Option<Box<EntryTemplate>>>,
    n_templates: usize,
    out: Out<W>,
}

impl<'a, W: Write> Writer<'a, W> {
    fn top(&mut self) {
        let snapshot = self.snapshot;
        self.out.op(opcode::EMPTY_DICT);
        self.out.op(opcode::MARK);
        for (key, slot) in &snapshot.shape.slots {
            self.text(key);
            match slot {
                Slot::Value(value) => self.value(value, false),
                Slot::Field(Field::Segments) => self.list(&snapshot.segments, Self::segment),
                Slot::Field(Field::HostSegments) => self.list(&snapshot.host_segments, Self::segment),
                Slot::Field(Field::DeviceTraces) => {
                    let devices: Vec<DeviceId> = DeviceId::first(self.document.n_traces()).collect();
                    self.list(&devices, |writer, device| writer.trace(*device));
                }
                Slot::Field(Field::HostTraces) => self.list(&snapshot.host_traces, Self::entry),
                Slot::Field(_) => self.list(&snapshot.external_annotations, Self::annotation),
            }
        }
        self.out.op(opcode::SETITEMS);
    }

    /// Writes a list in batches.
    fn list<'l, T>(&mut self, all: &'l [T], each: impl Fn(&mut Self, &'l T)) {
        self.out.op(opcode::EMPTY_LIST);
        for batch in all.chunks(BATCH) {
            self.out.op(opcode::MARK);
            for one in batch {
                each(self, one);
                if !self.out.spill() {
                    return;
                }
            }
            self.out.op(opcode::APPENDS);
        }
    }

    /// Writes the entries of a device in batches. Like [`Writer::list`], for entries that may be in no list.
    fn trace(&mut self, device: DeviceId) {
        self.out.op(opcode::EMPTY_LIST);
        let mut n_in_batch = 0;
        let mut goes_on = true;
        self.document.for_each_entry(device, &mut |entry| {
            if !goes_on {
                return;
            }
            if n_in_batch == BATCH {
                self.out.op(opcode::APPENDS);
                n_in_batch = 0;
            }
            if n_in_batch == 0 {
                self.out.op(opcode::MARK);
            }
            self.entry(entry);
            n_in_batch += 1;
            goes_on = self.out.spill();
        });
        if n_in_batch > 0 {
            self.out.op(opcode::APPENDS);
        }
    }

    #[inline]
    fn entry(&mut self, entry: &TraceEntry) {
        if let Some(template) = &mut self.entry_templates[entry.shape.index()]
            && template.write(entry, &self.census, &mut self.out).is_some()
        {
            return;
        }
        self.record(entry);
    }

    fn segment(&mut self, segment: &'a Segment) {
        self.record(segment);
    }

    fn annotation(&mut self, annotation: &'a Annotation) {
        self.record(annotation);
    }

    /// A record's dictionary.
    #[inline(always)]
    fn record(&mut self, record: &impl Record) {
        self.dictionary(record.shape(), |writer, field| writer.field(record.field(field)));
    }

    #[inline(always)]
    fn field(&mut self, field: FieldRef<'_>) {
        match field {
            FieldRef::Uint(int) => self.out.unsigned(int),
            FieldRef::Int(int) => self.out.int(int),
            FieldRef::Stack(stack) => self.frames(stack),
            FieldRef::Word(word) => self.name(self.census.place_of_word(word)),
            FieldRef::Text(text) => self.text(text),
            FieldRef::Bool(bool) => self.bool(bool),
            FieldRef::Pool(pool) => {
                self.out.unsigned(pool.graph);
                self.out.unsigned(pool.user);
                self.out.op(opcode::TUPLE2);
            }
            FieldRef::Blocks(blocks) => self.blocks(blocks),
        }
    }

    #[inline(never)]
    fn blocks(&mut self, blocks: &[Block]) {
        self.list(blocks, |writer, block| writer.record(block));
    }

    /// Writes a dictionary in the order of its shape. From the second of a shape
    /// on, it is a copy of a template with the fields in between.
    #[inline(always)]
    fn dictionary(&mut self, shape: ShapeId, field: impl Fn(&mut Self, Field)) {
        let Some(template) = self.templates[shape.index()].clone() else {
            return self.first_record(shape, &field);
        };
        for (bytes, name) in template.parts() {
            self.out.short(*bytes);
            if let Some(name) = name {
                field(self, *name);
            }
        }
    }

    fn first_record(&mut self, id: ShapeId, field: &dyn Fn(&mut Self, Field)) {
        let shape = self.snapshot.shapes.get(id);
        let is_shared = self.census.shapes[id.index()] > 1;
        self.dict(shape, is_shared, field);
        if is_shared && self.n_templates < MAX_TEMPLATES {
            self.n_templates += 1;
            let template = self.template(shape);
            self.entry_templates[id.index()] = EntryTemplate::new(&template).map(Box::new);
            self.templates[id.index()] = Some(Rc::new(template));
        }
    }

    fn dict(&mut self, shape: &'a Shape, is_shared: bool, mut field: impl FnMut(&mut Self, Field)) {
        self.out.op(opcode::EMPTY_DICT);
        self.out.op(opcode::MARK);
        for (key, slot) in &shape.slots {
            self.text(key);
            match slot {
                Slot::Field(name) => field(self, *name),
                Slot::Value(value) => self.value(value, is_shared),
            }
        }
        self.out.op(opcode::SETITEMS);
    }

    /// Returns the template of a shape of which one record was written, so that its texts have their final numbers.
    fn template(&mut self, shape: &'a Shape) -> Template {
        let (begin, mut fields) = (self.out.len(), Vec::new());
        self.dict(shape, true, |writer, field| fields.push((writer.out.len() - begin, field)));
        Template::new(&self.out.take_from(begin), &fields)
    }

    fn bool(&mut self, bool: bool) {
        self.out.op(if bool { opcode::NEWTRUE } else { opcode::NEWFALSE });
    }

    /// Writes a text, given its index in the census.
    #[inline(always)]
    fn name(&mut self, place: Option<usize>) {
        match place.map(|place| self.census.texts[place]) {
            Some(MemoEntry { is_written: true, id, .. }) => self.out.get(id),
            _ => self.first_name(place),
        }
    }

    fn first_name(&mut self, place: Option<usize>) {
        let text = place.map_or("", |place| self.census.words[place]);
        self.out.text(text);
        if let Some(place) = place {
            number(&mut self.census.texts[place], &mut self.census.next_id, |id| self.out.put(id));
        }
    }

    fn text(&mut self, text: &Text) {
        match self.census.place(text) {
            Some(place) => self.name(Some(place)),
            None => self.out.text(text),
        }
    }

    #[inline(always)]
    fn frames(&mut self, stack: Option<StackIndex>) {
        let stack = stack.unwrap_or(StackTable::EMPTY);
        match self.census.stacks[stack.index()] {
            MemoEntry { is_written: true, id, .. } => self.out.get(id),
            _ => self.first_stack(stack),
        }
    }

    fn first_stack(&mut self, stack: StackIndex) {
        let snapshot = self.snapshot;
        self.list(snapshot.stacks.members(stack), |writer, frame| writer.frame(*frame));
        number(&mut self.census.stacks[stack.index()], &mut self.census.next_id, |id| self.out.put(id));
    }

    fn frame(&mut self, index: FrameIndex) {
        if let MemoEntry { is_written: true, id, .. } = self.census.frames[index.index()] {
            return self.out.get(id);
        }
        let frame = self.snapshot.stacks.frame(index);
        self.record(frame);
        number(&mut self.census.frames[index.index()], &mut self.census.next_id, |id| self.out.put(id));
    }

    /// Writes a value without a field. Texts are shared with the whole file, containers among the records of a shape.
    fn value(&mut self, value: &'a Value, is_shared: bool) {
        match value {
            Value::None => self.out.op(opcode::NONE),
            Value::Bool(bool) => self.bool(*bool),
            Value::Int(int) => self.out.int(*int),
            Value::Big(bytes) => self.out.big(bytes),
            Value::Text(text) => self.text(text),
            Value::Float(_) | Value::Bytes(_) => self.bare(value),
            Value::List(_) | Value::Tuple(_) | Value::Dict(_) if is_shared => self.shared_container(value),
            _ => self.container(value),
        }
    }

    fn shared_container(&mut self, value: &'a Value) {
        if let Some(id) = self.values.get(value) {
            return self.out.get(*id);
        }
        self.container(value);
        let id = self.census.next_id;
        self.census.next_id += 1;
        self.values.insert(value, id);
        self.out.put(id);
    }

    /// Writes a container: by serde-pickle, unless an integer beyond 64 bits is
    /// in it, which serde does not support.
    fn container(&mut self, value: &'a Value) {
        if !holds_big(value) {
            return self.bare(value);
        }
        match value {
            Value::List(all) => self.list(all, |writer, value| writer.value(value, false)),
            Value::Tuple(all) => {
                self.out.op(opcode::MARK);
                all.iter().for_each(|value| self.value(value, false));
                self.out.op(opcode::TUPLE);
            }
            Value::Dict(pairs) => {
                self.out.op(opcode::EMPTY_DICT);
                self.out.op(opcode::MARK);
                for (key, value) in pairs.iter() {
                    self.value(key, false);
                    self.value(value, false);
                }
                self.out.op(opcode::SETITEMS);
            }
            _ => self.value(value, false),
        }
    }

    /// Writes a value without the memo, through serde-pickle.
    fn bare(&mut self, value: &Value) {
        let mut serializer = serde_pickle::Serializer::new(&mut self.out, serde_pickle::SerOptions::new());
        if let Err(error) = value.serialize(&mut serializer) {
            self.out.fail(io::Error::other(error));
        }
    }
}

/// Assigns a number to what was just written, if it is used again.
fn number(entry: &mut MemoEntry, next_id: &mut u32, put: impl FnOnce(u32)) {
    if entry.n_uses < 2 {
        return;
    }
    if entry.id == NO_ID {
        entry.id = *next_id;
        *next_id += 1;
    }
    entry.is_written = true;
    put(entry.id);
}

fn holds_big(value: &Value) -> bool {
    match value {
        Value::Big(_) => true,
        Value::List(all) | Value::Tuple(all) => all.iter().any(holds_big),
        Value::Dict(pairs) => pairs.iter().any(|(key, value)| holds_big(key) || holds_big(value)),
        _ => false,
    }
}
