//! The system's allocator, which marks that a thread is in it and can be told to fail.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
};

/// The allocator that the tests' heap is around.
pub(crate) struct Marked;

thread_local! {
    static IS_INSIDE: Cell<bool> = const { Cell::new(false) };
    static FAILS: Cell<bool> = const { Cell::new(false) };
    static N_REQUESTS: Cell<u64> = const { Cell::new(0) };
}

/// Returns how often this thread was in the system's allocator.
pub(crate) fn n_requests() -> u64 {
    N_REQUESTS.get()
}

/// Returns whether this thread is in the system's allocator, which a signal handler must not enter again.
pub(crate) fn is_inside() -> bool {
    IS_INSIDE.get()
}

/// Lets every reallocation of this thread fail during a call.
pub(crate) fn failing<T>(call: impl FnOnce() -> T) -> T {
    FAILS.set(true);
    let result = call();
    FAILS.set(false);
    result
}

fn marked<T>(call: impl FnOnce() -> T) -> T {
    let before = IS_INSIDE.replace(true);
    N_REQUESTS.set(N_REQUESTS.get() + 1);
    let result = call();
    IS_INSIDE.set(before);
    result
}

// SAFETY: all requests are passed on to the system's allocator, but those for which there is no memory.
unsafe impl GlobalAlloc for Marked {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise is passed on.
        marked(|| unsafe { System.alloc(layout) })
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise is passed on.
        marked(|| unsafe { System.alloc_zeroed(layout) })
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise is passed on.
        marked(|| unsafe { System.dealloc(block, layout) });
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        if FAILS.get() {
            return std::ptr::null_mut();
        }
        // SAFETY: the caller's promise is passed on.
        marked(|| unsafe { System.realloc(block, layout, new_size) })
    }
}
