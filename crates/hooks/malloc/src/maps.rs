//! `mmap` and its relatives. What the program maps with them is not a block of `malloc`: it is reported separately.
//!
//! What the C library and the loader map does not come here. Until the next functions are known, requests go to the kernel.

use std::{
    ffi::{c_int, c_long, c_void},
    ptr,
    sync::atomic::{AtomicPtr, Ordering},
};

use super::{
    next,
    reports::{mapped, unmapped},
};

/// Ranges of pages start at a multiple of at least this.
const LEAST_PAGE_BYTES: usize = 4096;

/// Returns a pointer that the kernel returned as a number.
fn pointer(number: c_long) -> *mut c_void {
    std::ptr::with_exposed_provenance_mut(number as usize)
}

/// Reports what was mapped, unless it failed. Returns the address.
fn reported(at: *mut c_void, bytes: impl FnOnce() -> usize) -> *mut c_void {
    if at != libc::MAP_FAILED {
        mapped(at, bytes);
    }
    at
}

/// The C library's function.
///
/// # Safety
/// As in the C library, for this function and all below.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn mmap(
    address: *mut c_void,
    bytes: usize,
    protection: c_int,
    flags: c_int,
    file: c_int,
    offset: i64,
) -> *mut c_void {
    let at = match next::mmap() {
        // SAFETY: the caller's promise.
        Some(next) => unsafe { next(address, bytes, protection, flags, file, offset) },
        None => {
            // SAFETY: the caller's promise.
            let at =
                unsafe { libc::syscall(libc::SYS_mmap, address, bytes, protection, flags, file, offset) };
            pointer(at)
        }
    };
    reported(at, || bytes)
}

/// The same function, where offsets have 64 bits.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn mmap64(
    address: *mut c_void,
    bytes: usize,
    protection: c_int,
    flags: c_int,
    file: c_int,
    offset: i64,
) -> *mut c_void {
    // SAFETY: the caller's promise.
    unsafe { mmap(address, bytes, protection, flags, file, offset) }
}

/// Makes a call that unmaps a range. Another thread may map the same addresses before it returns, so the range is
/// reported before, and again if the call fails.
fn giving_back<T: PartialEq>(address: *mut c_void, bytes: usize, failure: T, call: impl FnOnce() -> T) -> T {
    const ALL_ADDRESSES: usize = 1 << 56;
    let is_range = bytes > 0 && bytes < ALL_ADDRESSES;
    if is_range {
        unmapped(address, bytes);
    }
    let done = call();
    if is_range && done == failure {
        mapped(address, || bytes);
    }
    done
}

/// The C library's function.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn munmap(address: *mut c_void, bytes: usize) -> c_int {
    let is_page = address.addr() & (LEAST_PAGE_BYTES - 1) == 0;
    giving_back(address, if is_page { bytes } else { 0 }, -1, || match next::munmap() {
        // SAFETY: the caller's promise.
        Some(next) => unsafe { next(address, bytes) },
        // SAFETY: the caller's promise. The kernel returns 0 or -1.
        None => unsafe { libc::syscall(libc::SYS_munmap, address, bytes) as c_int },
    })
}

/// The C library's function, whose last argument is there with some flags alone.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn mremap(
    old: *mut c_void,
    old_bytes: usize,
    bytes: usize,
    flags: c_int,
    new: *mut c_void,
) -> *mut c_void {
    // What stays where it is, is not given back.
    let stays = match flags & (libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED | libc::MREMAP_DONTUNMAP) {
        0 => bytes,
        libc::MREMAP_MAYMOVE if bytes <= old_bytes => bytes,
        flags if flags & libc::MREMAP_DONTUNMAP != 0 => old_bytes,
        _ => 0,
    };
    let rest = old_bytes.saturating_sub(stays);
    let at = giving_back(old.wrapping_byte_add(stays), rest, libc::MAP_FAILED, || match next::mremap() {
        // SAFETY: the caller's promise.
        Some(next) => unsafe { next(old, old_bytes, bytes, flags, new) },
        // SAFETY: the caller's promise.
        None => pointer(unsafe { libc::syscall(libc::SYS_mremap, old, old_bytes, bytes, flags, new) }),
    });
    reported(at, || bytes)
}

/// The C library's function. What it attached is forgotten when something else is there: `shmdt` does not say how much it is.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn shmat(number: c_int, address: *const c_void, flags: c_int) -> *mut c_void {
    let at = match next::shmat() {
        // SAFETY: the caller's promise.
        Some(next) => unsafe { next(number, address, flags) },
        // SAFETY: the caller's promise.
        None => pointer(unsafe { libc::syscall(libc::SYS_shmat, number, address, flags) }),
    };
    reported(at, || bytes_of_shared(number))
}

/// Returns the size of System V shared memory in bytes; 0 if it is not known.
fn bytes_of_shared(number: c_int) -> usize {
    let mut found = std::mem::MaybeUninit::<libc::shmid_ds>::zeroed();
    // SAFETY: the result is written into `found`, all of whose bytes are zero before, which is a value of its fields.
    unsafe {
        libc::shmctl(number, libc::IPC_STAT, found.as_mut_ptr());
        found.assume_init().shm_segsz
    }
}

/// The C library's function.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn sbrk(bytes: isize) -> *mut c_void {
    let Some(sbrk) = next::sbrk() else { return libc::MAP_FAILED };
    // SAFETY: 0 bytes change nothing.
    let end = unsafe { sbrk(0) };
    // SAFETY: the caller's promise.
    moving_end(end, end.wrapping_byte_offset(bytes), libc::MAP_FAILED, || unsafe { sbrk(bytes) })
}

/// The C library's function.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn brk(end: *mut c_void) -> c_int {
    let (Some(brk), Some(sbrk)) = (next::brk(), next::sbrk()) else { return -1 };
    // SAFETY: 0 bytes change nothing.
    let old = unsafe { sbrk(0) };
    // SAFETY: the caller's promise.
    moving_end(old, end, -1, || unsafe { brk(end) })
}

/// Makes a call that lets the heap that `brk` makes longer end elsewhere.
fn moving_end<T: PartialEq + Copy>(
    old: *mut c_void,
    new: *mut c_void,
    failure: T,
    call: impl FnOnce() -> T,
) -> T {
    // What is before the first end was not reported.
    static FIRST: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());
    // Relaxed: an address that is compared.
    let first = match FIRST.compare_exchange(ptr::null_mut(), old, Ordering::Relaxed, Ordering::Relaxed) {
        Ok(_) => old,
        Err(first) => first,
    };
    let from = new.max(first);
    let done = giving_back(from, old.addr().saturating_sub(from.addr()), failure, call);
    if done != failure && new > old {
        mapped(old, || new.addr() - old.addr());
    }
    done
}
