//! A column of a table: its name, its type and what it means.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};

/// The type of a column.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A signed integer of 64 bits.
    Integer,
    /// An unsigned integer of 64 bits.
    Unsigned,
    /// True or false.
    Boolean,
    /// A text. Batches have each of their texts once.
    Text,
}

impl Kind {
    /// Returns Arrow's type.
    #[must_use]
    pub fn data_type(self) -> DataType {
        match self {
            Kind::Integer => DataType::Int64,
            Kind::Unsigned => DataType::UInt64,
            Kind::Boolean => DataType::Boolean,
            Kind::Text => DataType::Dictionary(Box::new(DataType::UInt32), Box::new(DataType::Utf8)),
        }
    }

    /// Returns the name of the type in `schema/tables.md`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Kind::Integer => "int64",
            Kind::Unsigned => "uint64",
            Kind::Boolean => "boolean",
            Kind::Text => "text",
        }
    }
}

/// A column of a table. Every column may have nulls.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// Its name.
    pub name: &'static str,
    /// Its type.
    pub kind: Kind,
    /// What it means, for `schema/tables.md`.
    pub meaning: &'static str,
    /// Whether a value takes a look at frames, scopes or owners, so that filters on it are not for the reader.
    pub is_costly: bool,
}

/// Declares a column whose values are in the records of the file.
pub(crate) const fn column(name: &'static str, kind: Kind, meaning: &'static str) -> Column {
    Column { name, kind, meaning, is_costly: false }
}

/// Declares a column whose values are computed from frames, scopes or owners.
pub(crate) const fn costly(name: &'static str, kind: Kind, meaning: &'static str) -> Column {
    Column { name, kind, meaning, is_costly: true }
}

/// Returns the schema of columns.
pub(crate) fn schema<'c>(columns: impl IntoIterator<Item = &'c Column>) -> SchemaRef {
    let field = |column: &Column| Field::new(column.name, column.kind.data_type(), true);
    Arc::new(Schema::new(columns.into_iter().map(field).collect::<Vec<_>>()))
}
