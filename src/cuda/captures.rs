//! How many captures run in this process, and the number of the latest.
#![forbid(unsafe_code)]

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

static N_RUNNING: AtomicUsize = AtomicUsize::new(0);
static LATEST: AtomicU64 = AtomicU64::new(1);

/// Returns true while a capture of memreel runs anywhere.
#[inline]
pub(super) fn is_any() -> bool {
    N_RUNNING.load(Ordering::Relaxed) > 0
}

/// Returns the number of the capture that began last, from 1 on.
pub(super) fn number() -> u64 {
    LATEST.load(Ordering::Relaxed)
}

/// Counts a capture until it is dropped.
#[derive(Debug)]
pub(super) struct Running(());

impl Running {
    pub(super) fn begin() -> Running {
        LATEST.fetch_add(1, Ordering::Relaxed);
        N_RUNNING.fetch_add(1, Ordering::Relaxed);
        Running(())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        N_RUNNING.fetch_sub(1, Ordering::Relaxed);
    }
}
