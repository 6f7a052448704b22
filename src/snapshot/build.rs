//! Keys and values, one by one, become a record.
//!
//! A known key with a value of the wrong type is kept in the record's shape
//! and leaves the field at its default, so that nothing is lost, a rewritten
//! file equals the original, and validation can report what is wrong.

use super::{
    field::Field,
    fields::{FieldMut, Fill},
    records::Block,
    schema,
    shape::{Shape, Shapes, Slot},
    stack_table::{Frame, FrameIndex, StackIndex, StackTable},
    value::{Text, Value},
};

/// Collects the keys of one dictionary.
#[derive(Debug, Default)]
pub(crate) struct Builder<R> {
    record: R,
    shape: Shape,
}

impl<R: Fill> Builder<R> {
    /// Takes one key with its value.
    pub(crate) fn set(&mut self, key: &Text, value: Value) {
        let field = schema::field_of(R::KEYS, key).filter(|field| !self.is_second_address(*field));
        let fits = |field: &Field| self.record.field_mut(*field).is_some_and(|into| into.set(&value));
        let slot = match field.filter(fits) {
            Some(field) => Slot::Field(field),
            None => Slot::Value(value),
        };
        self.shape.set(key.clone(), slot);
    }

    /// Takes `frames`, already interned.
    pub(crate) fn set_stack(&mut self, key: &Text, stack: StackIndex) {
        if let Some(FieldMut::Stack(into)) = self.record.field_mut(Field::Frames) {
            *into = Some(stack);
            self.shape.set(key.clone(), Slot::Field(Field::Frames));
        }
    }

    /// Takes `blocks`, already built.
    pub(crate) fn set_blocks(&mut self, key: &Text, blocks: Vec<Block>) {
        if let Some(FieldMut::Blocks(into)) = self.record.field_mut(Field::Blocks) {
            *into = blocks;
            self.shape.set(key.clone(), Slot::Field(Field::Blocks));
        }
    }

    /// The record; its shape is interned.
    pub(crate) fn finish(self, shapes: &mut Shapes) -> R {
        let Builder { mut record, shape } = self;
        record.set_shape(shapes.intern(shape));
        record
    }

    /// `addr` and `device_free` share one field: the second of them is kept aside.
    fn is_second_address(&self, field: Field) -> bool {
        matches!(field, Field::Addr | Field::DeviceFree)
            && ["addr", "device_free"].iter().any(|key| self.shape.slot(key).is_some())
    }
}

/// A stack from a list of dictionaries; `None` if it is anything else.
pub(crate) fn stack(value: &Value, stacks: &mut StackTable, shapes: &mut Shapes) -> Option<StackIndex> {
    let Value::List(list) = value else { return None };
    let frames: Option<Vec<FrameIndex>> = list
        .iter()
        .map(|value| {
            let mut builder = Builder::<Frame>::default();
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
