//! Counts this library's memory in the program's own `malloc`.

use memreel::integrate::own_memory;

/// Counts one of this library's own blocks.
pub(crate) fn allocated(block: *mut libc::c_void) {
    own_memory::allocated(chunk_bytes(block));
}

/// Counts one of this library's own blocks that will be freed.
pub(crate) fn freed(block: *mut libc::c_void) {
    own_memory::freed(chunk_bytes(block));
}

fn chunk_bytes(block: *mut libc::c_void) -> u64 {
    // SAFETY: a live block of `malloc`.
    let usable = unsafe { libc::malloc_usable_size(block) };
    usable as u64 + size_of::<usize>() as u64
}
