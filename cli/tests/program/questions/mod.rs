//! The questions about snapshots.

mod answers;
mod golden;
mod lists;
mod names;
mod new_blocks;
mod rows;
mod distinct_rows;
