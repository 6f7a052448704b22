//! How a snapshot keeps each file's keys: what programs need that build snapshots of their own, or print every key.

pub use super::{
    field::Field,
    field_ref::{FieldRef, Word},
    fields::Record,
    shape::{Shape, ShapeId, Shapes, Slot},
    use_counts::UseCounts,
};
