//! Serialises the model through serde as PyTorch's dictionaries, so that its JSON loads in the viewer.

use std::cell::OnceCell;

use serde::{
    Serialize, Serializer,
    ser::{SerializeMap, SerializeSeq},
};

use super::{
    Snapshot, TopLevel,
    field::Field,
    field_ref::FieldRef,
    fields::Record,
    records::{Segment, TraceEntry},
    shape::{ShapeId, Slot},
    stack_table::StackIndex,
    value::{Text, Value},
};
use crate::words::Address;

/// As a plain integer, as in a snapshot file.
impl Serialize for Address {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(self.0)
    }
}

impl Serialize for Snapshot {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let writer = Writer::new(self);
        if self.top_level == TopLevel::SegmentList {
            return writer.segments(&self.segments).serialize(serializer);
        }
        let mut map = serializer.serialize_map(Some(self.shape.slots.len()))?;
        for (key, slot) in &self.shape.slots {
            match slot {
                Slot::Value(value) => map.serialize_entry(&**key, value)?,
                Slot::Field(Field::Segments) => {
                    map.serialize_entry(&**key, &writer.segments(&self.segments))?
                }
                Slot::Field(Field::HostSegments) => {
                    map.serialize_entry(&**key, &writer.segments(&self.host_segments))?
                }
                Slot::Field(Field::DeviceTraces) => {
                    let traces: Vec<_> =
                        self.device_traces.iter().map(|trace| writer.entries(trace)).collect();
                    map.serialize_entry(&**key, &traces)?;
                }
                Slot::Field(Field::HostTraces) => {
                    map.serialize_entry(&**key, &writer.entries(&self.host_traces))?
                }
                Slot::Field(_) => map.serialize_entry(&**key, &writer.annotations())?,
            }
        }
        map.end()
    }
}

/// Turns records into dictionaries; each stack is built once and then shared.
pub(super) struct Writer<'a> {
    snapshot: &'a Snapshot,
    stacks: Vec<OnceCell<Value>>,
}

/// A list whose elements are created while it is written.
struct Each<I, F>(I, F);

impl<I: Iterator + Clone, F: Fn(I::Item) -> Value> Serialize for Each<I, F> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut seq = serializer.serialize_seq(None)?;
        self.0.clone().try_for_each(|item| seq.serialize_element(&(self.1)(item)))?;
        seq.end()
    }
}

impl<'a> Writer<'a> {
    pub(super) fn new(snapshot: &'a Snapshot) -> Writer<'a> {
        Writer { snapshot, stacks: vec![OnceCell::new(); snapshot.stacks.len()] }
    }

    /// Returns the dictionaries of entries.
    pub(super) fn entry_values(&self, entries: &[TraceEntry]) -> impl Iterator<Item = Value> {
        entries.iter().map(|entry| self.record(entry))
    }

    fn segments(&'a self, segments: &'a [Segment]) -> impl Serialize + 'a {
        Each(segments.iter(), |segment| self.record(segment))
    }

    fn entries(&'a self, entries: &'a [TraceEntry]) -> impl Serialize + 'a {
        Each(entries.iter(), |entry| self.record(entry))
    }

    fn annotations(&'a self) -> impl Serialize + 'a {
        Each(self.snapshot.external_annotations.iter(), |annotation| self.record(annotation))
    }

    /// A dictionary in the order of its shape, the fields' values from `field`.
    fn dict(&self, shape: ShapeId, field: impl Fn(Field) -> Value) -> Value {
        let pair = |(key, slot): &(Text, Slot)| {
            let value = match slot {
                Slot::Field(f) => field(*f),
                Slot::Value(value) => value.clone(),
            };
            (Value::Text(key.clone()), value)
        };
        Value::Dict(self.snapshot.shapes.get(shape).slots.iter().map(pair).collect())
    }

    /// The dictionary of a record.
    fn record(&self, record: &impl Record) -> Value {
        self.dict(record.shape(), |field| match record.field(field) {
            FieldRef::Uint(int) => Value::unsigned(int),
            FieldRef::Int(int) => Value::Int(int),
            FieldRef::Bool(bool) => Value::Bool(bool),
            FieldRef::Word(word) => Value::text(word.name()),
            FieldRef::Pool(pool) => {
                Value::Tuple([pool.graph, pool.user].map(Value::unsigned).into_iter().collect())
            }
            FieldRef::Text(text) => Value::Text(text.clone()),
            FieldRef::Stack(stack) => self.stack(stack),
            FieldRef::Blocks(blocks) => Value::List(blocks.iter().map(|block| self.record(block)).collect()),
        })
    }

    fn stack(&self, stack: Option<StackIndex>) -> Value {
        let Some(index) = stack else { return Value::None };
        let build =
            || Value::List(self.snapshot.stacks.frames(index).map(|frame| self.record(frame)).collect());
        self.stacks[index.index()].get_or_init(build).clone()
    }
}
