//! What this library has of the program's own `malloc`.

use std::sync::atomic::{AtomicU64, Ordering};

/// The bytes of blocks that this library has from the program's `malloc`.
static OWN_BYTES: AtomicU64 = AtomicU64::new(0);

/// Counts a block of this library's own.
pub(crate) fn allocated(block: *mut libc::c_void) {
    OWN_BYTES.fetch_add(chunk_bytes(block), Ordering::Relaxed);
}

/// Counts a block of this library's own that will be freed. One that was allocated before the count began is in no sum.
pub(crate) fn freed(block: *mut libc::c_void) {
    let bytes = chunk_bytes(block);
    let less = |own: u64| Some(own.saturating_sub(bytes));
    let _ = OWN_BYTES.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
}

fn chunk_bytes(block: *mut libc::c_void) -> u64 {
    // SAFETY: a live block of `malloc`.
    let usable = unsafe { libc::malloc_usable_size(block) };
    usable as u64 + size_of::<usize>() as u64
}

/// Returns the bytes of all these blocks.
pub(crate) fn all() -> u64 {
    OWN_BYTES.load(Ordering::Relaxed)
}
