//! Counts snapshots that could not be written, and prints a line on standard error for each.
#![forbid(unsafe_code)]

use std::{
    fmt,
    sync::atomic::{AtomicU64, Ordering},
};

use crate::process::notice;

/// Relaxed: a count.
static N_FAILED: AtomicU64 = AtomicU64::new(0);

/// Returns how many snapshots the triggers of this process could not write.
pub(crate) fn n_failed() -> u64 {
    N_FAILED.load(Ordering::Relaxed)
}

/// Counts a snapshot that could not be written, and prints the reason.
pub(crate) fn count(cause: &str, why: &dyn fmt::Display) {
    N_FAILED.fetch_add(1, Ordering::Relaxed);
    notice::print(&format!("no snapshot on {cause}: {why}"));
}
