//! A function that allocates or frees but is not the C library's.
//!
//! Such a function either handles a request itself, or passes it on to a function of this library: libstdc++'s
//! `operator new` calls `malloc`, tcmalloc's does not. Its first call shows which, so that a block is reported once.
#![forbid(unsafe_code)]

use std::{
    ffi::{CStr, c_void},
    sync::atomic::{AtomicU8, Ordering},
};

use super::{
    apart::Watch,
    early,
    next::Next,
    reports::{Move, allocated, freed, is_recording},
};

/// A function after this library, and how it handles a request.
pub(crate) struct Other {
    next: Next,
    /// Relaxed: one byte; a thread that does not see it finds out the same.
    does: AtomicU8,
}

/// The function serves a request itself.
const SERVES: u8 = 1;
/// The function passes a request on.
const PASSES_ON: u8 = 2;

impl Other {
    pub(crate) const fn new(name: &'static CStr) -> Other {
        Other { next: Next::new(name), does: AtomicU8::new(0) }
    }

    /// Returns the address; null if no library has the function.
    #[inline]
    pub(crate) fn address(&self) -> *mut c_void {
        self.next.address_anywhere()
    }

    /// Calls the function, which allocates.
    #[inline]
    pub(crate) fn allocate(&self, bytes: usize, call: impl FnOnce() -> *mut c_void) -> *mut c_void {
        match self.does.load(Ordering::Relaxed) {
            PASSES_ON => call(),
            SERVES => allocated(call(), bytes),
            _ => self.learn_to_allocate(bytes, call),
        }
    }

    #[cold]
    fn learn_to_allocate(&self, bytes: usize, call: impl FnOnce() -> *mut c_void) -> *mut c_void {
        if !is_recording() {
            return call();
        }
        let watch = Watch::begin();
        let block = call();
        if block.is_null() {
            return block;
        }
        let passes_on = watch.saw_allocated(block);
        drop(watch);
        self.does.store(if passes_on { PASSES_ON } else { SERVES }, Ordering::Relaxed);
        if passes_on { block } else { allocated(block, bytes) }
    }

    /// Calls the function, which frees a block.
    #[inline]
    pub(crate) fn free(&self, block: *mut c_void, call: impl FnOnce()) {
        if block.is_null() || early::has(block) {
            return;
        }
        match self.does.load(Ordering::Relaxed) {
            PASSES_ON => call(),
            SERVES => {
                freed(block);
                call();
            }
            _ => self.learn_to_free(block, call),
        }
    }

    #[cold]
    fn learn_to_free(&self, block: *mut c_void, call: impl FnOnce()) {
        if !is_recording() {
            return call();
        }
        freed(block);
        let watch = Watch::begin();
        call();
        let passes_on = watch.saw_freed(block);
        self.does.store(if passes_on { PASSES_ON } else { SERVES }, Ordering::Relaxed);
    }

    /// Calls the function, which changes the size of a block.
    #[inline]
    pub(crate) fn reallocate(
        &self,
        block: *mut c_void,
        bytes: usize,
        call: impl FnOnce() -> *mut c_void,
    ) -> *mut c_void {
        if block.is_null() { self.allocate(bytes, call) } else { reallocated(block, bytes, call) }
    }
}

/// Changes the size of a block by `call`, and reports it.
#[inline]
pub(crate) fn reallocated(
    block: *mut c_void,
    bytes: usize,
    call: impl FnOnce() -> *mut c_void,
) -> *mut c_void {
    let moves = Move::begin(block);
    let moved = call();
    // Zero bytes are a free, and null is then no failure.
    if !moved.is_null() || bytes == 0 {
        moves.has_moved();
    }
    allocated(moved, bytes)
}
