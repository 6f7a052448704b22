//! The tables: which columns each has, and how the rows of a file are found.

mod parts;
mod stack_text;
mod events;
mod allocations;
mod segments;
mod stacks;
mod annotations;
mod runs;
mod page;

use datafusion::arrow::datatypes::SchemaRef;

pub(crate) use allocations::At;
pub use page::page;

use crate::{
    columns::{Column, OF_FILE, Table, Texts, schema_of},
    files::Opened,
    sink::{Sink, Stopped},
};

impl Table {
    /// Returns its columns.
    pub fn columns(self) -> impl Iterator<Item = &'static Column> {
        let own = match self {
            Table::Events => events::COLUMNS,
            Table::Allocations => allocations::COLUMNS,
            Table::Segments => segments::COLUMNS,
            Table::Blocks => segments::BLOCK_COLUMNS,
            Table::Stacks => stacks::COLUMNS,
            Table::Frames => stacks::FRAME_COLUMNS,
            Table::Annotations => annotations::COLUMNS,
            Table::Runs => runs::COLUMNS,
        };
        OF_FILE.iter().chain(own)
    }

    /// Returns the column of a name.
    #[must_use]
    pub fn column(self, name: &str) -> Option<&'static Column> {
        self.columns().find(|column| column.name == name)
    }

    /// Returns its schema.
    pub(crate) fn schema(self, texts: Texts) -> SchemaRef {
        schema_of(self.columns(), texts)
    }

    /// Hands the rows of a file to a sink.
    pub(crate) fn read(self, opened: &Opened, at: Option<At>, sink: &mut Sink<'_>) -> Result<(), Stopped> {
        match self {
            Table::Events => opened.with_source(sink, events::read),
            Table::Allocations => {
                opened.with_snapshot(sink, |snapshot, sink| allocations::read(snapshot, at, sink))
            }
            Table::Runs => opened.with_snapshot(sink, runs::read),
            Table::Segments => opened.with_source(sink, |source, sink| segments::read(source.head(), sink)),
            Table::Blocks => {
                opened.with_source(sink, |source, sink| segments::read_blocks(source.head(), sink))
            }
            Table::Stacks => opened.with_source(sink, |source, sink| stacks::read(source.head(), sink)),
            Table::Frames => {
                opened.with_source(sink, |source, sink| stacks::read_frames(source.head(), sink))
            }
            Table::Annotations => {
                opened.with_source(sink, |source, sink| annotations::read(source.head(), sink))
            }
        }
    }
}
