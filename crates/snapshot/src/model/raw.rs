//! How a snapshot keeps each file's keys, for programs that build snapshots themselves or print every key.

pub use super::{
    field::Field,
    field_ref::{FieldRef, Word},
    fields::Record,
    shape::{Shape, ShapeId, Shapes, Slot},
    use_counts::UseCounts,
};
