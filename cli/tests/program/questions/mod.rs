//! The questions about snapshots.

mod answers;
mod golden;
mod lists;
mod names;
mod distinct_rows;
