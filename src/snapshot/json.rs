//! The model as PyTorch's dictionaries through serde, which makes it JSON that the viewer loads.

use std::cell::OnceCell;

use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::Error as _,
    ser::{SerializeMap, SerializeSeq},
};

use super::{
    Snapshot, TopLevel,
    build::{self, Builder},
    field::Field,
    field_ref::FieldRef,
    fields::{Fill, Record},
    records::{Annotation, Block, Segment, TraceEntry},
    shape::{ShapeId, Slot},
    stack_table::StackIndex,
    value::{Text, Value},
};
use crate::event::Address;

/// As a plain integer, as in a snapshot file.
impl Serialize for Address {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(self.0)
    }
}

impl Serialize for Snapshot {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let writer = Writer { snapshot: self, stacks: vec![OnceCell::new(); self.stacks.len()] };
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
struct Writer<'a> {
    snapshot: &'a Snapshot,
    stacks: Vec<OnceCell<Value>>,
}

/// A list whose elements are made while it is written.
struct Each<I, F>(I, F);

impl<I: Iterator + Clone, F: Fn(I::Item) -> Value> Serialize for Each<I, F> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut seq = serializer.serialize_seq(None)?;
        self.0.clone().try_for_each(|item| seq.serialize_element(&(self.1)(item)))?;
        seq.end()
    }
}

impl<'a> Writer<'a> {
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

impl<'de> Deserialize<'de> for Snapshot {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Snapshot, D::Error> {
        let value = Value::deserialize(deserializer)?;
        Snapshot::from_value(&value).map_err(D::Error::custom)
    }
}

impl Snapshot {
    /// Builds a snapshot from plain values, such as JSON: where the format has
    /// tuples of two numbers, lists of two numbers count.
    ///
    /// # Errors
    /// A text that names the first part that is not a snapshot, or what the
    /// value seems to be instead.
    pub fn from_value(value: &Value) -> Result<Snapshot, String> {
        let mut snapshot = Snapshot::without_keys();
        if let Value::List(list) = value {
            snapshot.top_level = TopLevel::SegmentList;
            snapshot.segments = snapshot.segments_from(list)?;
            snapshot.complete_blocks();
            return snapshot.unless_foreign();
        }
        let pairs = build::text_pairs(value).ok_or("the top is neither a dict with text keys nor a list")?;
        for (key, value) in pairs {
            let slot = match snapshot.take(key, value)? {
                Some(field) => Slot::Field(field),
                None => Slot::Value(value.clone()),
            };
            snapshot.shape.set(key.clone(), slot);
        }
        snapshot.complete_blocks();
        snapshot.unless_foreign()
    }

    fn take(&mut self, key: &str, value: &Value) -> Result<Option<Field>, String> {
        let Value::List(list) = value else { return Ok(None) };
        Ok(Some(match key {
            "segments" => {
                self.segments = self.segments_from(list)?;
                Field::Segments
            }
            "host_segments" => {
                self.host_segments = self.segments_from(list)?;
                Field::HostSegments
            }
            "device_traces" => {
                let mut traces = Vec::with_capacity(list.len());
                for trace in list.iter() {
                    let Value::List(entries) = trace else { return Ok(None) };
                    traces.push(self.entries_from(entries)?);
                }
                self.device_traces = traces;
                Field::DeviceTraces
            }
            "host_traces" => {
                self.host_traces = self.entries_from(list)?;
                Field::HostTraces
            }
            "external_annotations" => {
                let build = |value| self.record::<Annotation>(value, |_, _, _, _| false);
                self.external_annotations = list.iter().map(build).collect::<Result<_, _>>()?;
                Field::ExternalAnnotations
            }
            _ => return Ok(None),
        }))
    }

    fn segments_from(&mut self, list: &[Value]) -> Result<Vec<Segment>, String> {
        list.iter()
            .map(|value| {
                self.record::<Segment>(value, |snapshot, builder, key, value| match (&**key, value) {
                    ("blocks", Value::List(blocks)) => match snapshot.blocks_from(blocks) {
                        Ok(blocks) => {
                            builder.set_blocks(key, blocks);
                            true
                        }
                        Err(_) => false,
                    },
                    ("frames", value) => {
                        match build::stack(value, &mut snapshot.stacks, &mut snapshot.shapes) {
                            Some(stack) => {
                                builder.set_stack(key, stack);
                                true
                            }
                            None => false,
                        }
                    }
                    _ => false,
                })
            })
            .collect()
    }

    fn blocks_from(&mut self, list: &[Value]) -> Result<Vec<Block>, String> {
        list.iter()
            .map(|value| {
                self.record::<Block>(value, |snapshot, builder, key, value| {
                    let stack = (&**key == "frames")
                        .then(|| build::stack(value, &mut snapshot.stacks, &mut snapshot.shapes))
                        .flatten();
                    stack.inspect(|stack| builder.set_stack(key, *stack)).is_some()
                })
            })
            .collect()
    }

    fn entries_from(&mut self, list: &[Value]) -> Result<Vec<TraceEntry>, String> {
        list.iter()
            .map(|value| {
                self.record::<TraceEntry>(value, |snapshot, builder, key, value| {
                    let stack = (&**key == "frames")
                        .then(|| build::stack(value, &mut snapshot.stacks, &mut snapshot.shapes))
                        .flatten();
                    stack.inspect(|stack| builder.set_stack(key, *stack)).is_some()
                })
            })
            .collect()
    }

    /// One record; `special` takes the keys that need the snapshot's tables.
    fn record<R: Fill>(
        &mut self,
        value: &Value,
        special: impl Fn(&mut Snapshot, &mut Builder<R>, &Text, &Value) -> bool,
    ) -> Result<R, String> {
        let pairs = build::text_pairs(value)
            .ok_or_else(|| format!("{} stands where a record should be", value.kind()))?;
        let mut builder = Builder::<R>::default();
        for (key, value) in pairs {
            if !special(self, &mut builder, key, value) {
                builder.set(key, with_tuples(key, value));
            }
        }
        Ok(builder.finish(&mut self.shapes))
    }
}

/// JSON has no tuples; the two keys that hold one get it back.
fn with_tuples(key: &str, value: &Value) -> Value {
    match (key, value) {
        ("segment_pool_id" | "pool_id", Value::List(parts)) if parts.len() == 2 => {
            Value::Tuple(parts.clone())
        }
        _ => value.clone(),
    }
}
