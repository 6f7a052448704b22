//! The questions about snapshots.

mod address;
mod answers;
mod golden;
mod lists;
mod names;
mod new_blocks;
mod rows;
mod distinct_rows;
