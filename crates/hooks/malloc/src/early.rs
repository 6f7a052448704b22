//! Memory for requests that come while the real functions are looked up: the loader may allocate for that.

use std::{
    cell::UnsafeCell,
    ffi::c_void,
    ptr,
    sync::atomic::{AtomicUsize, Ordering},
};

const ARENA_BYTES: usize = 64 << 10;

/// The header before each block: its size.
const HEADER_BYTES: usize = 16;

#[repr(C, align(64))]
struct Arena(UnsafeCell<[u8; ARENA_BYTES]>);

// SAFETY: each byte is handed out once, by the counter.
unsafe impl Sync for Arena {}

static ARENA: Arena = Arena(UnsafeCell::new([0; ARENA_BYTES]));
static N_TAKEN: AtomicUsize = AtomicUsize::new(0);

/// Returns zeroed memory that is never freed; null if there is no more.
pub(crate) fn take(bytes: usize, align: usize) -> *mut c_void {
    let align = align.max(HEADER_BYTES);
    let Some(all) = bytes.checked_add(HEADER_BYTES + align) else { return ptr::null_mut() };
    // Relaxed: the places only have to differ; nothing was written there before.
    let start = N_TAKEN.fetch_add(all.next_multiple_of(HEADER_BYTES), Ordering::Relaxed);
    if start.saturating_add(all) > ARENA_BYTES {
        return ptr::null_mut();
    }
    let arena = ARENA.0.get().cast::<u8>();
    // SAFETY: `start` is within the arena.
    let first = unsafe { arena.add(start + HEADER_BYTES) };
    let pad = first.align_offset(align);
    // SAFETY: the padding is less than `align`, which was counted; the header is before the block.
    unsafe {
        let block = first.add(pad);
        block.sub(size_of::<usize>()).cast::<usize>().write_unaligned(bytes);
        block.cast()
    }
}

/// Returns whether a block is from here.
pub(crate) fn has(block: *mut c_void) -> bool {
    block.addr().wrapping_sub(ARENA.0.get().addr()) < ARENA_BYTES
}

/// Returns the bytes of a block from here.
///
/// # Safety
/// The block is from [`take`].
pub(crate) unsafe fn bytes_of(block: *mut c_void) -> usize {
    // SAFETY: `take` wrote the size before the block.
    unsafe { block.cast::<u8>().sub(size_of::<usize>()).cast::<usize>().read_unaligned() }
}
