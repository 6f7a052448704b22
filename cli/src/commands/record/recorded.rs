//! What one process of a run recorded.

#![forbid(unsafe_code)]

use std::path::PathBuf;

use memreel_snapshot::Snapshot;

use super::folder::TapeFile;

/// What one process recorded.
#[derive(Debug)]
pub(super) struct Recorded {
    pub(super) tape: TapeFile,
    pub(super) path: PathBuf,
    pub(super) snapshot: Snapshot,
    pub(super) n_events: usize,
    pub(super) peak_bytes: u64,
    pub(super) problems: Vec<String>,
    pub(super) is_running: bool,
}
