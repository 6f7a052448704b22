//! A table: its name, and what a row of it is.

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
            Table::Annotations => "A row for each start and each end of a scope.",
            Table::Runs => "A row for each device of each file: what was recorded, and its highest figures.",
        }
    }
}
