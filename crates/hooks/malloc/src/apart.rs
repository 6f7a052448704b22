//! Threads that report nothing, and threads that remember the last block they saw.
#![forbid(unsafe_code)]

use std::{
    cell::Cell,
    ffi::c_void,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
};

/// The number of threads that report nothing now, or are watched: the flags of a thread are looked at only if there are
/// any. Relaxed: a thread needs only its own count, which it sees.
static N_APART: AtomicUsize = AtomicUsize::new(0);

/// Whether anything is reported. Before that, thread storage is not touched, because it may not work yet.
static IS_ON: AtomicBool = AtomicBool::new(false);

thread_local! {
    static IS_SILENT: Cell<bool> = const { Cell::new(false) };
    /// The last blocks that were reported while a thread was apart.
    static SEEN: Cell<Seen> = const { Cell::new(Seen { allocated: 0, freed: 0 }) };
}

/// The addresses of the last block that was allocated, and of the last one that was freed.
#[derive(Clone, Copy)]
pub(crate) struct Seen {
    pub(crate) allocated: usize,
    pub(crate) freed: usize,
}

/// Records that reports start.
pub(crate) fn begin() {
    IS_ON.store(true, Ordering::Release);
}

/// Runs code whose allocations and frees are not reported.
pub(crate) fn silently<T>(work: impl FnOnce() -> T) -> T {
    if !IS_ON.load(Ordering::Acquire) {
        return work();
    }
    N_APART.fetch_add(1, Ordering::Relaxed);
    let before = IS_SILENT.replace(true);
    let done = work();
    IS_SILENT.set(before);
    N_APART.fetch_sub(1, Ordering::Relaxed);
    done
}

/// Remembers the last blocks of this thread while it exists.
pub(crate) struct Watch;

impl Watch {
    pub(crate) fn begin() -> Watch {
        N_APART.fetch_add(1, Ordering::Relaxed);
        SEEN.set(Seen { allocated: 0, freed: 0 });
        Watch
    }

    /// Returns whether this block was reported as the last one that was allocated.
    pub(crate) fn saw_allocated(&self, block: *mut c_void) -> bool {
        SEEN.get().allocated == block.addr()
    }

    /// Returns whether this block was reported as the last one that was freed.
    pub(crate) fn saw_freed(&self, block: *mut c_void) -> bool {
        SEEN.get().freed == block.addr()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        N_APART.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Returns whether some thread is silent or watched.
#[inline]
pub(crate) fn is_one_apart() -> bool {
    N_APART.load(Ordering::Relaxed) != 0
}

/// Makes a report, unless this thread is silent, and keeps the block for its watch: last, because a report allocates too.
#[cold]
pub(crate) fn apart<T>(see: impl FnOnce(&mut Seen), report: impl FnOnce() -> T) -> Option<T> {
    let reported = (!IS_SILENT.get()).then(report);
    let mut seen = SEEN.get();
    see(&mut seen);
    SEEN.set(seen);
    reported
}
