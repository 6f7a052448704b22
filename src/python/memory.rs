//! Reads the interpreter's memory.

use std::ptr;

/// The lowest address that can be an object's; lower ones are null plus an offset.
const LOWEST: usize = 1 << 12;

/// Returns whether a word can be the address of an object: not null, aligned, and in user space.
#[inline(always)]
pub(super) fn is_address(word: usize) -> bool {
    word >= LOWEST && word.is_multiple_of(8) && word as u64 >> 47 == 0
}

/// Reads a value.
///
/// # Safety
///
/// The address is in memory that can be read, where a value of this type is, or any bytes if the type has no
/// invalid ones.
#[inline(always)]
pub(super) unsafe fn read<T: Copy>(address: usize) -> T {
    // SAFETY: by the contract; unaligned, because an offset that was published may be anything.
    unsafe { ptr::with_exposed_provenance::<T>(address).read_unaligned() }
}

/// Copies bytes.
///
/// # Safety
///
/// The range is in memory that can be read.
pub(super) unsafe fn copy(address: usize, n_bytes: usize) -> Vec<u8> {
    // SAFETY: by the contract; the bytes are copied before any other code of this thread runs.
    unsafe { std::slice::from_raw_parts(ptr::with_exposed_provenance(address), n_bytes) }.to_vec()
}
