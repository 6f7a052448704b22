//! Access to records by field: one way to read and one way to fill each of them.

use super::{
    field::Field,
    field_ref::{FieldRef, Word},
    records::{Annotation, Block, Segment, TraceEntry},
    schema::{self, Key},
    shape::{ShapeId, Shapes, Slot},
    stack_table::{Frame, StackIndex},
    value::{Text, Value},
};
use crate::words::{Action, Address, BlockState, PoolId, PoolKind};

/// A dictionary of the format: an entry, a block, a segment, a frame or an annotation.
pub trait Record {
    /// The shape: which keys the record has, in which order.
    fn shape(&self) -> ShapeId;

    /// The value of a field. A field of another kind of record gives any value.
    fn field(&self, field: Field) -> FieldRef<'_>;
}

/// A record that is filled one field at a time.
pub(crate) trait Fill: Record + Default {
    /// The keys that the format has for it.
    const KEYS: &'static [Key];

    /// The place of a field; `None` if the record lacks it.
    fn field_mut(&mut self, field: Field) -> Option<FieldMut<'_>>;

    /// Sets the shape.
    fn set_shape(&mut self, shape: ShapeId);
}

/// The place of a record's field.
#[derive(Debug)]
pub(crate) enum FieldMut<'a> {
    Address(&'a mut Address),
    Uint(&'a mut u64),
    Line(&'a mut u64),
    Int(&'a mut i64),
    Bool(&'a mut bool),
    Action(&'a mut Option<Action>),
    State(&'a mut Option<BlockState>),
    Kind(&'a mut Option<PoolKind>),
    Pool(&'a mut PoolId),
    Text(&'a mut Text),
    Stack(&'a mut Option<StackIndex>),
    Blocks(&'a mut Vec<Block>),
}

impl FieldMut<'_> {
    /// Takes a value, and returns whether it has the field's type.
    ///
    /// A negative number is not an address or a size, but its bits are kept: PyTorch's C++ writer
    /// makes an address of 2^63 or more negative (`docs/snapshot-format.md` 1). Stacks and blocks are not
    /// plain values; the reader makes them first.
    pub(crate) fn set(self, value: &Value) -> bool {
        match (self, value) {
            (FieldMut::Address(Address(into)) | FieldMut::Uint(into), Value::Int(int)) => {
                *into = int.cast_unsigned();
                *int >= 0
            }
            (FieldMut::Address(into), Value::Big(_)) => match value.as_unsigned() {
                Some(address) => {
                    *into = Address(address);
                    true
                }
                None => false,
            },
            // An unknown line is PyTorch's 2^64 - 1, or -1 in C++, which is kept outside the fields.
            (FieldMut::Line(into), value) => match value.as_unsigned() {
                Some(line) => {
                    *into = if line == u64::MAX { 0 } else { line };
                    true
                }
                None => false,
            },
            (FieldMut::Int(into), Value::Int(int)) => {
                *into = *int;
                true
            }
            (FieldMut::Bool(into), Value::Bool(bool)) => {
                *into = *bool;
                true
            }
            (FieldMut::Action(into), Value::Text(text)) => {
                *into = Action::from_name(text);
                into.is_some()
            }
            (FieldMut::State(into), Value::Text(text)) => {
                *into = BlockState::ALL.iter().copied().find(|state| state.name() == &**text);
                into.is_some()
            }
            (FieldMut::Kind(into), Value::Text(text)) => {
                *into = [PoolKind::Small, PoolKind::Large].into_iter().find(|kind| kind.name() == &**text);
                into.is_some()
            }
            (FieldMut::Pool(into), value) => match pool_id(value) {
                Some(pool) => {
                    *into = pool;
                    true
                }
                None => false,
            },
            (FieldMut::Text(into), Value::Text(text)) => {
                into.clone_from(text);
                true
            }
            _ => false,
        }
    }
}

/// Returns a frame as a dictionary, in the order of its file.
pub(crate) fn frame_value(frame: &Frame, shapes: &Shapes) -> Value {
    let pair = |(key, slot): &(Text, Slot)| {
        let value = match slot {
            Slot::Value(value) => value.clone(),
            Slot::Field(field) => match frame.field(*field) {
                FieldRef::Text(text) => Value::Text(text.clone()),
                FieldRef::Uint(line) => Value::unsigned(line),
                _ => Value::None,
            },
        };
        (Value::Text(key.clone()), value)
    };
    Value::Dict(shapes.get(frame.shape).slots.iter().map(pair).collect())
}

/// The pool that a tuple of two numbers names.
///
/// A list of two numbers would do for the viewer, but writing it back would
/// make a tuple of it, so it does not count; JSON, which has no tuples, is
/// turned into tuples before it comes here.
fn pool_id(value: &Value) -> Option<PoolId> {
    let Value::Tuple(parts) = value else { return None };
    let [Value::Int(first), Value::Int(second)] = parts[..] else { return None };
    Some(PoolId { graph: u64::try_from(first).ok()?, user: u64::try_from(second).ok()? })
}

impl Record for TraceEntry {
    #[inline(always)]
    fn shape(&self) -> ShapeId {
        self.shape
    }

    #[inline(always)]
    fn field(&self, field: Field) -> FieldRef<'_> {
        match field {
            Field::Action => FieldRef::Word(Word::Action(self.action)),
            Field::Addr | Field::DeviceFree => FieldRef::Uint(self.address.0),
            Field::Size => FieldRef::Uint(self.size),
            Field::Stream => FieldRef::Int(self.stream.0),
            Field::TimeUs => FieldRef::Int(self.time_us),
            _ => FieldRef::Stack(self.stack),
        }
    }
}

impl Fill for TraceEntry {
    const KEYS: &'static [Key] = schema::ENTRY;

    fn field_mut(&mut self, field: Field) -> Option<FieldMut<'_>> {
        Some(match field {
            Field::Action => FieldMut::Action(&mut self.action),
            Field::Addr | Field::DeviceFree => FieldMut::Address(&mut self.address),
            Field::Size => FieldMut::Uint(&mut self.size),
            Field::Stream => FieldMut::Int(&mut self.stream.0),
            Field::TimeUs => FieldMut::Int(&mut self.time_us),
            Field::Frames => FieldMut::Stack(&mut self.stack),
            _ => return None,
        })
    }

    fn set_shape(&mut self, shape: ShapeId) {
        self.shape = shape;
    }
}

impl Record for Block {
    #[inline(always)]
    fn shape(&self) -> ShapeId {
        self.shape
    }

    #[inline(always)]
    fn field(&self, field: Field) -> FieldRef<'_> {
        match field {
            Field::Address => FieldRef::Uint(self.address.0),
            Field::Size => FieldRef::Uint(self.size),
            Field::RequestedSize => FieldRef::Uint(self.requested_size),
            Field::State => FieldRef::Word(Word::State(self.state)),
            _ => FieldRef::Stack(self.stack),
        }
    }
}

impl Fill for Block {
    const KEYS: &'static [Key] = schema::BLOCK;

    fn field_mut(&mut self, field: Field) -> Option<FieldMut<'_>> {
        Some(match field {
            Field::Address => FieldMut::Address(&mut self.address),
            Field::Size => FieldMut::Uint(&mut self.size),
            Field::RequestedSize => FieldMut::Uint(&mut self.requested_size),
            Field::State => FieldMut::State(&mut self.state),
            Field::Frames => FieldMut::Stack(&mut self.stack),
            _ => return None,
        })
    }

    fn set_shape(&mut self, shape: ShapeId) {
        self.shape = shape;
    }
}

impl Record for Segment {
    fn shape(&self) -> ShapeId {
        self.shape
    }

    fn field(&self, field: Field) -> FieldRef<'_> {
        match field {
            Field::Device => FieldRef::Int(self.device.0),
            Field::Address => FieldRef::Uint(self.address.0),
            Field::TotalSize => FieldRef::Uint(self.total_size),
            Field::AllocatedSize => FieldRef::Uint(self.allocated_size),
            Field::ActiveSize => FieldRef::Uint(self.active_size),
            Field::RequestedSize => FieldRef::Uint(self.requested_size),
            Field::Stream => FieldRef::Int(self.stream.0),
            Field::SegmentType => FieldRef::Word(Word::Kind(self.kind)),
            Field::SegmentPoolId => FieldRef::Pool(self.pool),
            Field::IsExpandable => FieldRef::Bool(self.is_expandable),
            Field::Blocks => FieldRef::Blocks(&self.blocks),
            _ => FieldRef::Stack(self.stack),
        }
    }
}

impl Fill for Segment {
    const KEYS: &'static [Key] = schema::SEGMENT;

    fn field_mut(&mut self, field: Field) -> Option<FieldMut<'_>> {
        Some(match field {
            Field::Device => FieldMut::Int(&mut self.device.0),
            Field::Address => FieldMut::Address(&mut self.address),
            Field::TotalSize => FieldMut::Uint(&mut self.total_size),
            Field::AllocatedSize => FieldMut::Uint(&mut self.allocated_size),
            Field::ActiveSize => FieldMut::Uint(&mut self.active_size),
            Field::RequestedSize => FieldMut::Uint(&mut self.requested_size),
            Field::Stream => FieldMut::Int(&mut self.stream.0),
            Field::SegmentType => FieldMut::Kind(&mut self.kind),
            Field::SegmentPoolId => FieldMut::Pool(&mut self.pool),
            Field::IsExpandable => FieldMut::Bool(&mut self.is_expandable),
            Field::Blocks => FieldMut::Blocks(&mut self.blocks),
            Field::Frames => FieldMut::Stack(&mut self.stack),
            _ => return None,
        })
    }

    fn set_shape(&mut self, shape: ShapeId) {
        self.shape = shape;
    }
}

impl Record for Frame {
    fn shape(&self) -> ShapeId {
        self.shape
    }

    fn field(&self, field: Field) -> FieldRef<'_> {
        match field {
            Field::Name => FieldRef::Text(&self.name),
            Field::Filename => FieldRef::Text(&self.filename),
            _ => FieldRef::Uint(self.line),
        }
    }
}

impl Fill for Frame {
    const KEYS: &'static [Key] = schema::FRAME;

    fn field_mut(&mut self, field: Field) -> Option<FieldMut<'_>> {
        Some(match field {
            Field::Name => FieldMut::Text(&mut self.name),
            Field::Filename => FieldMut::Text(&mut self.filename),
            Field::Line => FieldMut::Line(&mut self.line),
            _ => return None,
        })
    }

    fn set_shape(&mut self, shape: ShapeId) {
        self.shape = shape;
    }
}

impl Record for Annotation {
    fn shape(&self) -> ShapeId {
        self.shape
    }

    fn field(&self, field: Field) -> FieldRef<'_> {
        match field {
            Field::Stage => FieldRef::Text(&self.stage),
            Field::Name => FieldRef::Text(&self.name),
            Field::Device => FieldRef::Int(self.device.0),
            _ => FieldRef::Int(self.time_us),
        }
    }
}

impl Fill for Annotation {
    const KEYS: &'static [Key] = schema::ANNOTATION;

    fn field_mut(&mut self, field: Field) -> Option<FieldMut<'_>> {
        Some(match field {
            Field::Stage => FieldMut::Text(&mut self.stage),
            Field::Name => FieldMut::Text(&mut self.name),
            Field::Device => FieldMut::Int(&mut self.device.0),
            Field::TimeUs => FieldMut::Int(&mut self.time_us),
            _ => return None,
        })
    }

    fn set_shape(&mut self, shape: ShapeId) {
        self.shape = shape;
    }
}
