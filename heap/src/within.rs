//! Threads that are within the allocator behind this library.
//!
//! Memory may be mapped there: by a handler of a signal, which may call `mmap` and not `malloc`. A report of it would ask for
//! memory of an allocator that has its locks.
#![forbid(unsafe_code)]

use super::processor::{mark, set_mark};

/// Marks this thread until it is dropped, also by an exception.
struct Marked {
    before: u8,
}

impl Drop for Marked {
    #[inline]
    fn drop(&mut self) {
        set_mark(self.before);
    }
}

/// Calls the allocator.
#[inline]
pub(crate) fn within<T>(call: impl FnOnce() -> T) -> T {
    let _marked = Marked { before: mark() };
    set_mark(1);
    call()
}

/// Returns whether this thread is within the allocator.
pub(crate) fn is_within() -> bool {
    mark() != 0
}
