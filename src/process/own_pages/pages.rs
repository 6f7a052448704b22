//! Maps pages by direct system calls, because the C library's functions may be reported.

use std::{
    ffi::c_void,
    ptr::{self, null_mut},
};

pub(super) const WRITABLE: i32 = libc::PROT_READ | libc::PROT_WRITE;

pub(super) fn map(n_bytes: usize, access: i32) -> *mut u8 {
    // SAFETY: new pages, which nothing else has.
    unsafe { map_at(null_mut(), n_bytes, access, 0) }
}

/// # Safety
/// Nothing uses the pages at `at`, which is null unless `how` says that they are replaced.
pub(super) unsafe fn map_at(at: *mut u8, n_bytes: usize, access: i32, how: i32) -> *mut u8 {
    // Without a reservation, which also keeps the kernel from merging the mapping with one of the program's.
    let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | how;
    // SAFETY: the caller's promise. The call itself: the C library's may be one that is reported.
    let at = unsafe { libc::syscall(libc::SYS_mmap, at.cast::<c_void>(), n_bytes, access, kind, -1, 0_i64) };
    if at == -1 { null_mut() } else { ptr::with_exposed_provenance_mut(at as usize) }
}

/// # Safety
/// The pages are of [`map`], and nothing uses them.
pub(super) unsafe fn unmap(at: *mut u8, n_bytes: usize) {
    // SAFETY: the caller's promise.
    unsafe { libc::syscall(libc::SYS_munmap, at, n_bytes) };
}
