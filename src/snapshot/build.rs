//! Keys and values, one by one, become records: the one place that knows which key is which field.
//!
//! A known key with a value of the wrong type is kept in the record's shape
//! and leaves the field at its default, so that nothing is lost, a rewritten
//! file equals the original, and validation can say what is wrong.

use super::{
    records::{Annotation, Block, Segment, TraceEntry},
    shape::{Field, Shape, ShapeId, Shapes, Slot},
    stack_table::{Frame, FrameIndex, StackIndex, StackTable},
    value::{Text, Value},
};
use crate::{
    event::{Action, PoolId},
    inventory::{BlockState, PoolKind},
};

/// A record that takes its fields one at a time.
pub(crate) trait Build: Default {
    /// What comes out.
    type Record;

    /// Takes a value into a field, or says that it does not fit.
    fn take(&mut self, key: &str, value: &Value) -> Option<Field>;

    /// The record with its shape.
    fn finish(self, shape: ShapeId) -> Self::Record;
}

/// Collects the keys of one dictionary.
#[derive(Debug, Default)]
pub(crate) struct Builder<B> {
    record: B,
    shape: Shape,
}

impl<B: Build> Builder<B> {
    /// Takes one key with its value.
    pub(crate) fn set(&mut self, key: &Text, value: Value) {
        let slot = match self.record.take(key, &value) {
            Some(field) => Slot::Field(field),
            None => Slot::Value(value),
        };
        self.shape.set(key.clone(), slot);
    }

    /// The record; its shape is interned.
    pub(crate) fn finish(self, shapes: &mut Shapes) -> B::Record {
        let shape = shapes.intern(self.shape);
        self.record.finish(shape)
    }
}

impl Builder<EntryFields> {
    /// Takes `frames`, already interned.
    pub(crate) fn set_stack(&mut self, key: &Text, stack: StackIndex) {
        self.record.0.stack = Some(stack);
        self.shape.set(key.clone(), Slot::Field(Field::Frames));
    }
}

impl Builder<BlockFields> {
    /// Takes `frames`, already interned.
    pub(crate) fn set_stack(&mut self, key: &Text, stack: StackIndex) {
        self.record.0.stack = Some(stack);
        self.shape.set(key.clone(), Slot::Field(Field::Frames));
    }
}

impl Builder<SegmentFields> {
    /// Takes `frames`, already interned.
    pub(crate) fn set_stack(&mut self, key: &Text, stack: StackIndex) {
        self.record.0.stack = Some(stack);
        self.shape.set(key.clone(), Slot::Field(Field::Frames));
    }

    /// Takes `blocks`, already built.
    pub(crate) fn set_blocks(&mut self, key: &Text, blocks: Vec<Block>) {
        self.record.0.blocks = blocks;
        self.shape.set(key.clone(), Slot::Field(Field::Blocks));
    }
}

/// The fields of a trace entry, and whether its address is taken: `addr` and
/// `device_free` share one field, and an entry that has both keeps the second aside.
#[derive(Debug, Default)]
pub(crate) struct EntryFields(TraceEntry, bool);

impl Build for EntryFields {
    type Record = TraceEntry;

    fn take(&mut self, key: &str, value: &Value) -> Option<Field> {
        let entry = &mut self.0;
        match key {
            "action" => {
                entry.action = Action::from_name(value.as_text()?);
                entry.action.map(|_| Field::Action)
            }
            "addr" | "device_free" if self.1 => None,
            "addr" | "device_free" => {
                self.1 = true;
                let field = if key == "addr" { Field::Addr } else { Field::DeviceFree };
                unsigned(value, &mut entry.address, field)
            }
            "size" => unsigned(value, &mut entry.size, Field::Size),
            "stream" => signed(value, &mut entry.stream.0, Field::Stream),
            "time_us" => signed(value, &mut entry.time_us, Field::TimeUs),
            _ => None,
        }
    }

    fn finish(self, shape: ShapeId) -> TraceEntry {
        TraceEntry { shape, ..self.0 }
    }
}

/// The fields of a block.
#[derive(Debug, Default)]
pub(crate) struct BlockFields(Block);

impl Build for BlockFields {
    type Record = Block;

    fn take(&mut self, key: &str, value: &Value) -> Option<Field> {
        let block = &mut self.0;
        match key {
            "address" => unsigned(value, &mut block.address, Field::Address),
            "size" => unsigned(value, &mut block.size, Field::Size),
            "requested_size" => unsigned(value, &mut block.requested_size, Field::RequestedSize),
            "state" => {
                let name = value.as_text()?;
                block.state = BlockState::ALL.iter().copied().find(|state| state.name() == &**name);
                block.state.map(|_| Field::State)
            }
            _ => None,
        }
    }

    fn finish(self, shape: ShapeId) -> Block {
        Block { shape, ..self.0 }
    }
}

/// The fields of a segment.
#[derive(Debug, Default)]
pub(crate) struct SegmentFields(Segment);

impl Build for SegmentFields {
    type Record = Segment;

    fn take(&mut self, key: &str, value: &Value) -> Option<Field> {
        let segment = &mut self.0;
        match key {
            "device" => signed(value, &mut segment.device.0, Field::Device),
            "address" => unsigned(value, &mut segment.address, Field::Address),
            "total_size" => unsigned(value, &mut segment.total_size, Field::TotalSize),
            "allocated_size" => unsigned(value, &mut segment.allocated_size, Field::AllocatedSize),
            "active_size" => unsigned(value, &mut segment.active_size, Field::ActiveSize),
            "requested_size" => unsigned(value, &mut segment.requested_size, Field::RequestedSize),
            "stream" => signed(value, &mut segment.stream.0, Field::Stream),
            "segment_type" => {
                let name = value.as_text()?;
                segment.kind =
                    [PoolKind::Small, PoolKind::Large].into_iter().find(|kind| kind.name() == &**name);
                segment.kind.map(|_| Field::SegmentType)
            }
            "segment_pool_id" => {
                segment.pool = pool_id(value)?;
                Some(Field::SegmentPoolId)
            }
            "is_expandable" => match value {
                Value::Bool(bool) => {
                    segment.is_expandable = *bool;
                    Some(Field::IsExpandable)
                }
                _ => None,
            },
            _ => None,
        }
    }

    fn finish(self, shape: ShapeId) -> Segment {
        Segment { shape, ..self.0 }
    }
}

/// The fields of a frame.
#[derive(Debug, Default)]
pub(crate) struct FrameFields {
    name: Text,
    filename: Text,
    line: u64,
}

impl Build for FrameFields {
    type Record = Frame;

    fn take(&mut self, key: &str, value: &Value) -> Option<Field> {
        match key {
            "name" => text(value, &mut self.name, Field::Name),
            "filename" => text(value, &mut self.filename, Field::Filename),
            "line" => unsigned(value, &mut self.line, Field::Line),
            _ => None,
        }
    }

    fn finish(self, shape: ShapeId) -> Frame {
        Frame { name: self.name, filename: self.filename, line: self.line, shape }
    }
}

/// The fields of an annotation.
#[derive(Debug, Default)]
pub(crate) struct AnnotationFields {
    stage: Text,
    name: Text,
    device: i64,
    time_us: i64,
}

impl Build for AnnotationFields {
    type Record = Annotation;

    fn take(&mut self, key: &str, value: &Value) -> Option<Field> {
        match key {
            "stage" => text(value, &mut self.stage, Field::Stage),
            "name" => text(value, &mut self.name, Field::Name),
            "device" => signed(value, &mut self.device, Field::Device),
            "time_us" => signed(value, &mut self.time_us, Field::TimeUs),
            _ => None,
        }
    }

    fn finish(self, shape: ShapeId) -> Annotation {
        Annotation {
            stage: self.stage,
            name: self.name,
            device: self.device.into(),
            time_us: self.time_us,
            shape,
        }
    }
}

/// The pool a tuple names.
///
/// A list of two numbers would do for the viewer, but writing it back would
/// make a tuple of it, so it does not count; JSON, which has no tuples, is
/// turned into tuples before it comes here.
pub(crate) fn pool_id(value: &Value) -> Option<PoolId> {
    let Value::Tuple(parts) = value else { return None };
    let [Value::Int(first), Value::Int(second)] = parts[..] else { return None };
    Some(PoolId { graph: u64::try_from(first).ok()?, user: u64::try_from(second).ok()? })
}

/// A negative number does not fit, but its bits are kept: a 64-bit address
/// written by PyTorch's C++ writer comes out negative (snapshot-format.md 1).
fn unsigned(value: &Value, into: &mut u64, field: Field) -> Option<Field> {
    let int = value.as_int()?;
    *into = int.cast_unsigned();
    (int >= 0).then_some(field)
}

fn signed(value: &Value, into: &mut i64, field: Field) -> Option<Field> {
    *into = value.as_int()?;
    Some(field)
}

fn text(value: &Value, into: &mut Text, field: Field) -> Option<Field> {
    into.clone_from(value.as_text()?);
    Some(field)
}

/// A stack from a list of dictionaries; `None` if it is anything else.
pub(crate) fn stack(value: &Value, stacks: &mut StackTable, shapes: &mut Shapes) -> Option<StackIndex> {
    let Value::List(list) = value else { return None };
    let frames: Option<Vec<FrameIndex>> = list
        .iter()
        .map(|value| {
            let mut builder = Builder::<FrameFields>::default();
            text_pairs(value)?.for_each(|(key, value)| builder.set(key, value.clone()));
            Some(stacks.intern_frame(builder.finish(shapes)))
        })
        .collect();
    Some(stacks.intern_stack(&frames?))
}

/// The pairs of a dictionary whose keys are all texts.
pub(crate) fn text_pairs(value: &Value) -> Option<impl Iterator<Item = (&Text, &Value)>> {
    let Value::Dict(pairs) = value else { return None };
    let all_text = pairs.iter().all(|(key, _)| key.as_text().is_some());
    all_text.then(|| pairs.iter().filter_map(|(key, value)| Some((key.as_text()?, value))))
}
