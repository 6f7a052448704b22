//! What one process of a run recorded.

#![forbid(unsafe_code)]

use std::path::PathBuf;

use super::table::Peak;
use crate::run::tape_file::TapeFile;

/// What one process recorded, or one program of it.
#[derive(Debug)]
pub(super) struct Recorded {
    pub(super) tape: TapeFile,
    /// Its snapshot; `None` if it recorded nothing yet.
    pub(super) path: Option<PathBuf>,
    pub(super) n_events: usize,
    /// The events that its ring dropped.
    pub(super) n_dropped: u64,
    pub(super) peak: Peak,
    pub(super) problems: Vec<String>,
    pub(super) is_running: bool,
    /// Whether the process ran another program later.
    pub(super) is_left: bool,
    /// Whether it is one of many small ones (`helpers.rs`).
    pub(super) is_helper: bool,
}
