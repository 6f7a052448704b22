//! `mmap` and its relatives. What the program maps with them is no block of `malloc`: it is reported apart.
//!
//! What the C library and the loader map does not come here. Until the next functions are known, requests go to the kernel.

use std::ffi::{c_int, c_long, c_void};

use super::{
    next,
    reports::{mapped, unmapped},
};

/// Ranges of pages begin at a multiple of this at least.
const LEAST_PAGE_BYTES: usize = 4096;

/// Returns a pointer that the kernel returned as a number.
fn pointer(number: c_long) -> *mut c_void {
    std::ptr::with_exposed_provenance_mut(number as usize)
}

/// Reports what was mapped, unless it failed. Returns it.
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

/// The C library's function. Another thread may map the same addresses before it returns, so it is reported before, unless it
/// will fail.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn munmap(address: *mut c_void, bytes: usize) -> c_int {
    const ALL_ADDRESSES: usize = 1 << 56;
    if bytes > 0 && bytes < ALL_ADDRESSES && address.addr() & (LEAST_PAGE_BYTES - 1) == 0 {
        unmapped(address, bytes);
    }
    match next::munmap() {
        // SAFETY: the caller's promise.
        Some(next) => unsafe { next(address, bytes) },
        // SAFETY: the caller's promise. The kernel returns 0 or -1.
        None => unsafe { libc::syscall(libc::SYS_munmap, address, bytes) as c_int },
    }
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
    let at = match next::mremap() {
        // SAFETY: the caller's promise.
        Some(next) => unsafe { next(old, old_bytes, bytes, flags, new) },
        // SAFETY: the caller's promise.
        None => pointer(unsafe { libc::syscall(libc::SYS_mremap, old, old_bytes, bytes, flags, new) }),
    };
    if at != libc::MAP_FAILED {
        if old_bytes > 0 && flags & libc::MREMAP_DONTUNMAP == 0 {
            unmapped(old, old_bytes);
        }
        mapped(at, || bytes);
    }
    at
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

/// Returns the bytes of shared memory of System V; 0 if they are not said.
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
    // SAFETY: the caller's promise.
    let Some(old) = next::sbrk().map(|next| unsafe { next(bytes) }) else { return libc::MAP_FAILED };
    if old != libc::MAP_FAILED {
        moved_end(old, old.wrapping_byte_offset(bytes));
    }
    old
}

/// The C library's function.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn brk(end: *mut c_void) -> c_int {
    let (Some(brk), Some(sbrk)) = (next::brk(), next::sbrk()) else { return -1 };
    // SAFETY: 0 bytes change nothing; the caller's promise.
    let (old, status) = unsafe { (sbrk(0), brk(end)) };
    if status == 0 && old != libc::MAP_FAILED {
        moved_end(old, end);
    }
    status
}

/// Reports that the heap that `brk` makes longer ends elsewhere.
fn moved_end(old: *mut c_void, new: *mut c_void) {
    if new > old {
        mapped(old, || new.addr() - old.addr());
    } else if new < old {
        unmapped(new, old.addr() - new.addr());
    }
}
