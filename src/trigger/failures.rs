//! Snapshots that could not be written: a line on standard error each, and their number.
#![forbid(unsafe_code)]

use std::{
    fmt,
    sync::atomic::{AtomicU64, Ordering},
};

use rustix::{io, stdio};

static N_FAILED: AtomicU64 = AtomicU64::new(0);

/// Returns how many snapshots the triggers of this process could not write.
pub(crate) fn n_failed() -> u64 {
    N_FAILED.load(Ordering::Relaxed)
}

/// Counts a snapshot that could not be written, and prints the reason.
pub(super) fn count(cause: &str, why: &dyn fmt::Display) {
    N_FAILED.fetch_add(1, Ordering::Relaxed);
    print(&format!("no snapshot on {cause}: {why}"));
}

/// Prints one line on standard error.
///
/// Not through std's handle, whose lock a thread may have that waits for the snapshot.
pub(crate) fn print(what: &str) {
    let line = format!("memreel: {}\n", what.replace(['\n', '\r'], " "));
    let _ = io::write(stdio::stderr(), line.as_bytes());
}
