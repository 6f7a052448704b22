//! `malloc` and its relatives, as the C library has them.
//!
//! They let an exception pass: a handler that an allocator calls may throw.

use std::{
    ffi::{c_int, c_void},
    ptr,
};

use super::{
    apart::silently,
    early, loader, next,
    other::reallocated,
    processor::jump_with_caller,
    reports::{allocated, freed},
    sanitizers::{in_new_thread, unseen_of_memreel},
};

/// Returns null with the error of a request that cannot be served.
fn refused() -> *mut c_void {
    // SAFETY: the C library's error number of this thread.
    unsafe { *libc::__errno_location() = libc::ENOMEM };
    ptr::null_mut()
}

/// The functions that the loader calls too, which pass their return address to one of this library: the loader's own
/// requests are not reported (`loader.rs`).
macro_rules! with_caller {
    ($($name:ident($($argument:ident: $type:ty),*) $(-> $result:ty)?, $caller:tt => $with:ident;)*) => {$(
        /// The C library's function.
        ///
        /// # Safety
        /// As in the C library, for this function and all below.
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        pub(crate) unsafe extern "C-unwind" fn $name($($argument: $type),*) $(-> $result)? {
            jump_with_caller!($caller, $with)
        }
    )*};
}

with_caller! {
    malloc(bytes: usize) -> *mut c_void, 1 => malloc_for;
    calloc(n: usize, bytes: usize) -> *mut c_void, 2 => calloc_for;
    free(block: *mut c_void), 1 => free_for;
    realloc(block: *mut c_void, bytes: usize) -> *mut c_void, 2 => realloc_for;
}

/// # Safety
/// As C's functions, for this one and the three below. `caller` is a return address, or 0.
unsafe extern "C-unwind" fn malloc_for(bytes: usize, caller: usize) -> *mut c_void {
    match next::malloc() {
        // SAFETY: the caller's promise, here and below.
        Some(next) if loader::is_caller(caller) => unsafe { next(bytes) },
        // SAFETY: as above.
        Some(next) => allocated(unseen_of_memreel(caller, || unsafe { next(bytes) }), bytes),
        None => early::take(bytes, 1),
    }
}

unsafe extern "C-unwind" fn calloc_for(n: usize, bytes: usize, caller: usize) -> *mut c_void {
    match next::calloc() {
        // SAFETY: the caller's promise. An overflow fails, and null is not reported.
        Some(next) if loader::is_caller(caller) => unsafe { next(n, bytes) },
        Some(next) => {
            // SAFETY: as above.
            let block = unseen_of_memreel(caller, || unsafe { next(n, bytes) });
            allocated(block, n.wrapping_mul(bytes))
        }
        None => n.checked_mul(bytes).map_or_else(refused, |all| early::take(all, 1)),
    }
}

unsafe extern "C-unwind" fn free_for(block: *mut c_void, caller: usize) {
    if block.is_null() || early::has(block) {
        return;
    }
    if !loader::is_caller(caller) {
        freed(block);
    }
    if let Some(next) = next::free() {
        // SAFETY: the caller's promise.
        unseen_of_memreel(caller, || unsafe { next(block) });
    }
}

unsafe extern "C-unwind" fn realloc_for(block: *mut c_void, bytes: usize, caller: usize) -> *mut c_void {
    if block.is_null() {
        // SAFETY: the caller's promise.
        return unsafe { malloc_for(bytes, caller) };
    }
    if early::has(block) {
        // SAFETY: the caller's promise; the block is from there.
        return unsafe { moved_from_early(block, bytes, caller) };
    }
    let Some(next) = next::realloc() else { return refused() };
    if loader::is_caller(caller) {
        // SAFETY: the caller's promise.
        return unsafe { next(block, bytes) };
    }
    // SAFETY: the caller's promise.
    reallocated(block, bytes, || unseen_of_memreel(caller, || unsafe { next(block, bytes) }))
}

/// # Safety
/// The block is from [`early`].
unsafe fn moved_from_early(block: *mut c_void, bytes: usize, caller: usize) -> *mut c_void {
    // SAFETY: as C's `malloc`.
    let moved = unsafe { malloc_for(bytes, caller) };
    if !moved.is_null() {
        // SAFETY: both blocks have that many bytes, and are two.
        unsafe {
            let n = early::bytes_of(block).min(bytes);
            ptr::copy_nonoverlapping(block.cast::<u8>(), moved.cast::<u8>(), n);
        }
    }
    moved
}

/// The C library's function.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn reallocarray(
    block: *mut c_void,
    n: usize,
    bytes: usize,
) -> *mut c_void {
    match n.checked_mul(bytes) {
        // SAFETY: the caller's promise.
        Some(all) => unsafe { realloc(block, all) },
        None => refused(),
    }
}

/// The C library's function.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn memalign(align: usize, bytes: usize) -> *mut c_void {
    match next::memalign() {
        // SAFETY: the caller's promise.
        Some(next) => allocated(unsafe { next(align, bytes) }, bytes),
        None => early::take(bytes, align),
    }
}

/// The C library's function.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn aligned_alloc(align: usize, bytes: usize) -> *mut c_void {
    match next::aligned_alloc() {
        // SAFETY: the caller's promise.
        Some(next) => allocated(unsafe { next(align, bytes) }, bytes),
        None => early::take(bytes, align),
    }
}

/// The C library's function.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn posix_memalign(
    out: *mut *mut c_void,
    align: usize,
    bytes: usize,
) -> c_int {
    let Some(next) = next::posix_memalign() else { return libc::ENOMEM };
    // SAFETY: the caller's promise.
    let status = unsafe { next(out, align, bytes) };
    if status == 0 {
        // SAFETY: after success the next function wrote the block.
        allocated(unsafe { *out }, bytes);
    }
    status
}

/// The C library's function.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn valloc(bytes: usize) -> *mut c_void {
    match next::valloc() {
        // SAFETY: the caller's promise.
        Some(next) => allocated(unsafe { next(bytes) }, bytes),
        None => refused(),
    }
}

/// The C library's function.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn pvalloc(bytes: usize) -> *mut c_void {
    match next::pvalloc() {
        // SAFETY: the caller's promise.
        Some(next) => allocated(unsafe { next(bytes) }, bytes),
        None => refused(),
    }
}

/// The C library's function. It allocates while it holds the thread's own lock, and a recorder asks it for the bounds
/// of a thread's stack: what it allocates is not reported; otherwise a thread would wait for itself.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn pthread_getattr_np(
    thread: libc::pthread_t,
    attributes: *mut libc::pthread_attr_t,
) -> c_int {
    let Some(next) = next::pthread_getattr_np() else { return libc::ENOMEM };
    // SAFETY: the caller's promise.
    silently(|| unsafe { next(thread, attributes) })
}

/// The C library's function, which ThreadSanitizer calls in each new thread for the attributes above.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn pthread_attr_destroy(attributes: *mut libc::pthread_attr_t) -> c_int {
    let Some(next) = next::pthread_attr_destroy() else { return libc::EINVAL };
    // SAFETY: the caller's promise.
    in_new_thread(|| unsafe { next(attributes) })
}
