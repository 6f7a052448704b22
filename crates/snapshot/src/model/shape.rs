//! The keys of a dictionary in their order, and the values that many dictionaries share.

use std::sync::Arc;

use indexmap::IndexSet;

use super::{
    field::Field,
    schema,
    value::{Text, Value},
};
use crate::words::Seeded;

/// The place of a key's value.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Slot {
    /// In a field of the record, with the type the format gives it.
    Field(Field),
    /// Here: a text shared by many records (`compile_context`), a key this
    /// version does not know, or a known key with a value of the wrong type.
    Value(Value),
}

/// The keys of a record in the order of its file, and the values that are not
/// the record's own.
///
/// A million entries share a handful of shapes. Through them a file is written
/// back with the key order and the unknown keys it came with.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Shape {
    /// Every key with the place of its value.
    pub slots: Vec<(Text, Slot)>,
}

impl Shape {
    /// Returns the shape of a record with these keys in this order, each with its field.
    #[must_use]
    pub fn from_fields(fields: &[(&str, Field)]) -> Shape {
        Shape { slots: fields.iter().map(|(key, field)| ((*key).into(), Slot::Field(*field))).collect() }
    }

    /// Returns the keys of a segment in PyTorch's order; `frames` come last where there is a stack
    /// (`docs/snapshot-format.md` 1.2).
    #[must_use]
    pub fn segment(has_stack: bool) -> Shape {
        let mut fields: Vec<_> = schema::fields(schema::SEGMENT).collect();
        if has_stack {
            fields.sort_by_key(|(_, field)| *field == Field::Frames);
        }
        Shape::from_fields(&fields)
    }

    /// Returns the keys of a block in PyTorch's order (`docs/snapshot-format.md` 1.3).
    #[must_use]
    pub fn block() -> Shape {
        Shape::from_fields(&schema::fields(schema::BLOCK).collect::<Vec<_>>())
    }

    /// Returns the keys of a frame (`docs/snapshot-format.md` 1.4).
    #[must_use]
    pub fn frame() -> Shape {
        Shape::from_fields(&schema::fields(schema::FRAME).collect::<Vec<_>>())
    }

    /// Returns whether the file had this key with a value of the right type.
    #[must_use]
    pub fn has(&self, field: Field) -> bool {
        self.slots.iter().any(|(_, slot)| *slot == Slot::Field(field))
    }

    /// Returns the slot of a key.
    #[must_use]
    pub fn slot(&self, key: &str) -> Option<&Slot> {
        self.slots.iter().find(|(k, _)| &**k == key).map(|(_, slot)| slot)
    }

    /// Returns the value of a key that is not a field.
    #[must_use]
    pub fn value(&self, key: &str) -> Option<&Value> {
        match self.slot(key)? {
            Slot::Value(value) => Some(value),
            Slot::Field(_) => None,
        }
    }

    /// Returns the text of a key that is not a field, such as `user_metadata`.
    #[must_use]
    pub fn text(&self, key: &str) -> Option<&str> {
        self.value(key)?.as_text().map(|text| &**text)
    }

    /// Returns the text that the program gave an entry in `user_metadata`.
    #[must_use]
    pub fn user_metadata(&self) -> Option<&str> {
        self.text("user_metadata").map(own_metadata)
    }

    /// Sets a key: the last value wins and the first place remains, as in a Python dictionary.
    pub fn set(&mut self, key: Text, slot: Slot) {
        match self.slots.iter_mut().find(|(k, _)| *k == key) {
            Some((_, old)) => *old = slot,
            None => self.slots.push((key, slot)),
        }
    }
}

/// Returns the program's own part of a `user_metadata`: PyTorch 2.10 to 2.14 add a line from the allocator.
pub(crate) fn own_metadata(text: &str) -> &str {
    text.strip_suffix("mallocWithAddress").map_or(text, |own| own.strip_suffix('\n').unwrap_or(own))
}

/// The number of a shape in its snapshot's [`Shapes`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct ShapeId(pub u32);

impl ShapeId {
    /// Returns the number as an index into arrays of [`Shapes::len`] elements.
    #[must_use]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// The shapes of one snapshot; the same shape is the same number.
#[derive(Clone, Debug, Default)]
pub struct Shapes(IndexSet<Arc<Shape>, Seeded>);

impl Shapes {
    /// Adds a shape, unless it is known, and returns its number.
    ///
    /// # Panics
    /// Beyond 2^32 shapes, which no file in memory can hold.
    pub fn intern(&mut self, shape: Shape) -> ShapeId {
        let index = self.0.get_index_of(&shape).unwrap_or_else(|| {
            // A list that grew key by key has more capacity than it needs.
            self.0.insert_full(Arc::new(Shape { slots: shape.slots.into_boxed_slice().into_vec() })).0
        });
        ShapeId(u32::try_from(index).expect("fewer than 2^32 shapes"))
    }

    /// Adds every shape of another snapshot, unless it is known; both share its memory. Returns their numbers here.
    ///
    /// # Panics
    /// Beyond 2^32 shapes, which no file in memory can hold.
    pub fn intern_all(&mut self, others: &Shapes) -> Vec<ShapeId> {
        let number = |index| ShapeId(u32::try_from(index).expect("fewer than 2^32 shapes"));
        others.0.iter().map(|shape| number(self.0.insert_full(shape.clone()).0)).collect()
    }

    /// Adds a shape of another snapshot, unless it is known; both share its memory. Returns its number here.
    ///
    /// # Panics
    /// If the number is from another snapshot than `others`, or beyond 2^32 shapes.
    pub fn intern_shared(&mut self, others: &Shapes, id: ShapeId) -> ShapeId {
        let shape = others.0.get_index(id.index()).expect("a shape's number stays within its snapshot");
        ShapeId(u32::try_from(self.0.insert_full(shape.clone()).0).expect("fewer than 2^32 shapes"))
    }

    /// Returns the shape of a number.
    ///
    /// # Panics
    /// If the number is from another snapshot.
    #[must_use]
    pub fn get(&self, id: ShapeId) -> &Shape {
        self.0.get_index(id.0 as usize).expect("a shape's number stays within its snapshot")
    }

    /// Returns every shape with its number.
    pub fn iter(&self) -> impl Iterator<Item = (ShapeId, &Shape)> {
        self.0
            .iter()
            .enumerate()
            .map(|(index, shape)| (ShapeId(u32::try_from(index).unwrap_or(u32::MAX)), &**shape))
    }

    /// Returns the number of shapes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
