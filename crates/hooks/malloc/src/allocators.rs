//! The functions that only jemalloc or mimalloc have.

use std::{
    ffi::{c_int, c_void},
    mem::transmute,
};

use super::{
    functions::{free, posix_memalign, realloc},
    next::named,
    other::Other,
    reports::{Move, allocated},
    wrapped::{allocations, frees, reallocations, served_by_c},
};

/// The alignment in jemalloc's flags: the logarithm is in the low six bits.
fn align_of(flags: c_int) -> usize {
    1 << (flags & 63)
}

allocations! {
    unsafe fn mallocx(bytes: usize, flags: c_int) => bytes, align_of(flags);
    unsafe fn mi_malloc(bytes: usize) => bytes, 1;
    unsafe fn mi_malloc_small(bytes: usize) => bytes, 1;
    unsafe fn mi_zalloc(bytes: usize) => bytes, 1;
    unsafe fn mi_zalloc_small(bytes: usize) => bytes, 1;
    unsafe fn mi_calloc(n: usize, bytes: usize) => n.saturating_mul(bytes), 1;
    unsafe fn mi_mallocn(n: usize, bytes: usize) => n.saturating_mul(bytes), 1;
    unsafe fn mi_malloc_aligned(bytes: usize, align: usize) => bytes, align;
    unsafe fn mi_zalloc_aligned(bytes: usize, align: usize) => bytes, align;
    unsafe fn mi_calloc_aligned(n: usize, bytes: usize, align: usize) => n.saturating_mul(bytes), align;
    unsafe fn mi_memalign(align: usize, bytes: usize) => bytes, align;
    unsafe fn mi_aligned_alloc(align: usize, bytes: usize) => bytes, align;
    unsafe fn mi_valloc(bytes: usize) => bytes, 4096;
    unsafe fn mi_pvalloc(bytes: usize) => bytes, 4096;
    unsafe fn mi_new(bytes: usize) => bytes, 1;
    unsafe fn mi_new_n(n: usize, bytes: usize) => n.saturating_mul(bytes), 1;
    unsafe fn mi_new_nothrow(bytes: usize) => bytes, 1;
    unsafe fn mi_new_aligned(bytes: usize, align: usize) => bytes, align;
    unsafe fn mi_new_aligned_nothrow(bytes: usize, align: usize) => bytes, align;
}

reallocations! {
    unsafe fn rallocx(block: *mut c_void, bytes: usize, flags: c_int) => bytes;
    unsafe fn mi_realloc(block: *mut c_void, bytes: usize) => bytes;
    unsafe fn mi_reallocn(block: *mut c_void, n: usize, bytes: usize) => n.saturating_mul(bytes);
    unsafe fn mi_reallocarray(block: *mut c_void, n: usize, bytes: usize) => n.saturating_mul(bytes);
    unsafe fn mi_rezalloc(block: *mut c_void, bytes: usize) => bytes;
    unsafe fn mi_recalloc(block: *mut c_void, n: usize, bytes: usize) => n.saturating_mul(bytes);
    unsafe fn mi_realloc_aligned(block: *mut c_void, bytes: usize, align: usize) => bytes;
    unsafe fn mi_rezalloc_aligned(block: *mut c_void, bytes: usize, align: usize) => bytes;
    unsafe fn mi_recalloc_aligned(block: *mut c_void, n: usize, bytes: usize, align: usize) => n.saturating_mul(bytes);
    unsafe fn mi_new_realloc(block: *mut c_void, bytes: usize) => bytes;
    unsafe fn mi_new_reallocn(block: *mut c_void, n: usize, bytes: usize) => n.saturating_mul(bytes);
    unsafe fn mi_expand(block: *mut c_void, bytes: usize) => bytes;
}

frees! {
    unsafe fn dallocx(block: *mut c_void, flags: c_int);
    unsafe fn sdallocx(block: *mut c_void, bytes: usize, flags: c_int);
    unsafe fn mi_free(block: *mut c_void);
    unsafe fn mi_cfree(block: *mut c_void);
    unsafe fn mi_free_size(block: *mut c_void, bytes: usize);
    unsafe fn mi_free_size_aligned(block: *mut c_void, bytes: usize, align: usize);
    unsafe fn mi_free_aligned(block: *mut c_void, align: usize);
}

/// jemalloc's function, which changes a block's size where it is. It returns the bytes that the block has then.
///
/// # Safety
/// As in jemalloc.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn xallocx(block: *mut c_void, bytes: usize, extra: usize, flags: c_int) -> usize {
    type Function = unsafe extern "C-unwind" fn(*mut c_void, usize, usize, c_int) -> usize;
    static OTHER: Other = Other::new(named!(xallocx));
    // SAFETY: null is `None`; the name fixes the type.
    let Some(next) = (unsafe { transmute::<*mut c_void, Option<Function>>(OTHER.address()) }) else {
        // SAFETY: the caller's promise: the block is one of `malloc`.
        return unsafe { libc::malloc_usable_size(block) };
    };
    let moves = Move::begin(block);
    // SAFETY: the caller's promise.
    let now = unsafe { next(block, bytes, extra, flags) };
    if now >= bytes {
        moves.has_moved();
        allocated(block, bytes);
    }
    now
}

/// mimalloc's function.
///
/// # Safety
/// As in mimalloc.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn mi_posix_memalign(out: *mut *mut c_void, align: usize, bytes: usize) -> c_int {
    type Function = unsafe extern "C-unwind" fn(*mut *mut c_void, usize, usize) -> c_int;
    static OTHER: Other = Other::new(named!(mi_posix_memalign));
    // SAFETY: null is `None`; the name fixes the type.
    let Some(next) = (unsafe { transmute::<*mut c_void, Option<Function>>(OTHER.address()) }) else {
        // SAFETY: the caller's promise.
        return unsafe { posix_memalign(out, align, bytes) };
    };
    let mut status = 0;
    let block = OTHER.allocate(bytes, || {
        // SAFETY: the caller's promise; after success the function wrote the block.
        unsafe {
            status = next(out, align, bytes);
            if status == 0 { *out } else { std::ptr::null_mut() }
        }
    });
    debug_assert!(status != 0 || !block.is_null());
    status
}
