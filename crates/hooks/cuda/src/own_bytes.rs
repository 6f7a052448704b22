//! Counts what this library has of the program's own `malloc`.

use memreel::integrate::own_memory;

/// Counts a block of this library's own.
pub(crate) fn allocated(block: *mut libc::c_void) {
    own_memory::allocated(chunk_bytes(block));
}

/// Counts a block of this library's own that will be freed.
pub(crate) fn freed(block: *mut libc::c_void) {
    own_memory::freed(chunk_bytes(block));
}

fn chunk_bytes(block: *mut libc::c_void) -> u64 {
    // SAFETY: a live block of `malloc`.
    let usable = unsafe { libc::malloc_usable_size(block) };
    usable as u64 + size_of::<usize>() as u64
}
