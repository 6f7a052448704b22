//! The tables: which columns each has, and how the rows of a file are found.

mod column;
mod arrays;
mod rows;
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
pub(crate) use arrays::{integers, same_text};
use column::column;
pub use column::{Column, Kind};
pub(crate) use column::{Texts, schema as schema_of, typed};
pub use page::page;
pub(crate) use rows::Rows;

use crate::{
    files::Opened,
    plan::{Sink, Stopped},
};

/// The columns that every table begins with.
pub(crate) const OF_FILE: &[Column] = &[
    column("job", Kind::Text, "`job=…` in the path of the file, or else the folder that it is in"),
    column(
        "rank",
        Kind::Integer,
        "the number after `rank` in the path of the file, or else the key `rank` in the file",
    ),
    column("file", Kind::Text, "the path or the address of the snapshot"),
];

/// A table.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Table {
    /// A row for each event.
    Events,
    /// A row for each block that was ever in use.
    Allocations,
    /// A row for each segment at the end.
    Segments,
    /// A row for each block of a segment at the end.
    Blocks,
    /// A row for each stack.
    Stacks,
    /// A row for each frame of each stack.
    Frames,
    /// A row for each beginning and each end of a scope.
    Annotations,
    /// A row for each device of each file.
    Runs,
}

impl Table {
    /// All tables.
    pub const ALL: [Table; 8] = [
        Table::Events,
        Table::Allocations,
        Table::Segments,
        Table::Blocks,
        Table::Stacks,
        Table::Frames,
        Table::Annotations,
        Table::Runs,
    ];

    /// Returns its name in SQL.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Table::Events => "events",
            Table::Allocations => "allocations",
            Table::Segments => "segments",
            Table::Blocks => "blocks",
            Table::Stacks => "stacks",
            Table::Frames => "frames",
            Table::Annotations => "annotations",
            Table::Runs => "runs",
        }
    }

    /// Returns what a row of it is.
    #[must_use]
    pub fn meaning(self) -> &'static str {
        match self {
            Table::Events => "A row for each event, device by device, oldest first.",
            Table::Allocations => {
                "A row for each block that was ever in use, those from before the history included."
            }
            Table::Segments => "A row for each segment at the end.",
            Table::Blocks => "A row for each block of a segment at the end, free ones included.",
            Table::Stacks => "A row for each stack of a file.",
            Table::Frames => "A row for each frame of each stack.",
            Table::Annotations => "A row for each beginning and each end of a scope.",
            Table::Runs => "A row for each device of each file: what was recorded, and its highest figures.",
        }
    }

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
