//! The questions about snapshots.

mod answers;
mod golden;
mod told_apart;
