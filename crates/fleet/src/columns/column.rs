//! A column of a table: its name, its type and what it means.

use std::sync::Arc;

use datafusion::{
    arrow::{
        array::ArrayRef,
        compute::cast,
        datatypes::{DataType, Field, Schema, SchemaRef},
    },
    error::Result,
};

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

/// How the columns of texts come to the engine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Texts {
    /// A batch has each text once, and a number for each row.
    Coded,
    /// Each row has its text: between machines Arrow's transport makes that of them anyway, and the engine expects one type.
    Plain,
}

impl Kind {
    /// Returns Arrow's type.
    pub(crate) fn data_type(self, texts: Texts) -> DataType {
        match self {
            Kind::Text if texts == Texts::Plain => DataType::Utf8,
            Kind::Integer => DataType::Int64,
            Kind::Unsigned => DataType::UInt64,
            Kind::Boolean => DataType::Boolean,
            Kind::Text => DataType::Dictionary(Box::new(DataType::UInt32), Box::new(DataType::Utf8)),
        }
    }

    /// Returns the name of the type that `memreel-fleet tables` prints.
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
    /// What it means, for `memreel-fleet tables`.
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

/// The columns that every table begins with.
pub(crate) const OF_FILE: &[Column] = &[
    column("job", Kind::Text, "`job=…` in the file's path, or otherwise the folder that contains the file"),
    column(
        "rank",
        Kind::Integer,
        "the number after `rank` in the file's path, or otherwise the key `rank` in the file",
    ),
    column("file", Kind::Text, "the path or the address of the snapshot"),
];

/// Returns the schema of columns.
pub(crate) fn schema<'c>(columns: impl IntoIterator<Item = &'c Column>, texts: Texts) -> SchemaRef {
    let field = |column: &Column| Field::new(column.name, column.kind.data_type(texts), true);
    Arc::new(Schema::new(columns.into_iter().map(field).collect::<Vec<_>>()))
}

/// Returns columns in the types of a schema.
pub(crate) fn typed(columns: Vec<ArrayRef>, schema: &Schema) -> Result<Vec<ArrayRef>> {
    let pairs = columns.into_iter().zip(schema.fields());
    pairs
        .map(|(column, field)| match column.data_type() == field.data_type() {
            true => Ok(column),
            false => Ok(cast(&column, field.data_type())?),
        })
        .collect()
}
