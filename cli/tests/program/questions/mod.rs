//! The questions about snapshots.

mod answers;
mod golden;
mod lists;
mod names;
mod told_apart;
