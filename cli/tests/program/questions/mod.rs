//! The questions about snapshots.

mod answers;
mod golden;
mod lists;
mod told_apart;
