//! The questions about snapshots.

mod answers;
mod golden;
