//! Tracks the snapshots that are being written, and their threads.
#![forbid(unsafe_code)]

use std::{
    cell::Cell,
    sync::atomic::{AtomicU32, Ordering},
    thread,
    time::{Duration, Instant},
};

thread_local! {
    static IS_HERE: Cell<bool> = const { Cell::new(false) };
}

/// The number of threads that are writing a snapshot.
static N_THREADS: AtomicU32 = AtomicU32::new(0);

/// Marks a snapshot that this thread writes, while it exists.
pub(in crate::trigger) struct Dumping(());

impl Dumping {
    /// Returns `None` if this thread is already writing a snapshot, or has no storage any longer.
    pub(in crate::trigger) fn begin() -> Option<Dumping> {
        let is_first = IS_HERE.try_with(|is_here| !is_here.replace(true)).unwrap_or(false);
        is_first.then(|| {
            N_THREADS.fetch_add(1, Ordering::Relaxed);
            Dumping(())
        })
    }
}

impl Drop for Dumping {
    fn drop(&mut self) {
        N_THREADS.fetch_sub(1, Ordering::Relaxed);
        let _ = IS_HERE.try_with(|is_here| is_here.set(false));
    }
}

/// Returns whether this thread is writing a snapshot.
pub(in crate::trigger) fn is_here() -> bool {
    IS_HERE.try_with(Cell::get).unwrap_or(false)
}

/// Waits until no thread writes a snapshot, or until a deadline.
pub(in crate::trigger) fn wait_for_all(until: Instant) {
    while N_THREADS.load(Ordering::Relaxed) > 0 && Instant::now() < until {
        thread::sleep(Duration::from_millis(1));
    }
}

/// Resets the count in a child of `fork`, where only its own thread can be writing.
pub(in crate::trigger) fn forget_other_threads() {
    N_THREADS.store(u32::from(is_here()), Ordering::Relaxed);
}
