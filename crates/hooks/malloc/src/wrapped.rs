//! Makes the wrappers of functions that are not the C library's: one line each, with the bytes and the alignment of the
//! request as the arguments have them.
//!
//! No library may have the function: a program asks for it by a weak symbol, which this library defines. Then the C
//! library serves the request.

use std::ffi::c_void;

use super::functions::{calloc, memalign};

/// Handles a request for a function that no library defines. The memory is zeroed, because some of these functions
/// promise that.
///
/// # Safety
/// The duties of C's `memalign`.
#[cold]
pub(crate) unsafe fn served_by_c(bytes: usize, align: usize) -> *mut c_void {
    const MALLOC_ALIGN: usize = 16;
    // SAFETY: the caller's promise.
    unsafe {
        if align <= MALLOC_ALIGN {
            return calloc(1, bytes);
        }
        let block = memalign(align, bytes);
        if !block.is_null() {
            block.cast::<u8>().write_bytes(0, bytes);
        }
        block
    }
}

macro_rules! allocations {
    ($(unsafe fn $name:ident($($arg:ident: $type:ty),*) => $bytes:expr, $align:expr;)*) => {$(
        /// The function of this name.
        ///
        /// # Safety
        /// As in the library that has it.
        #[unsafe(no_mangle)]
        unsafe extern "C-unwind" fn $name($($arg: $type),*) -> *mut c_void {
            type Function = unsafe extern "C-unwind" fn($($type),*) -> *mut c_void;
            static OTHER: Other = Other::new(named!($name));
            // SAFETY: null is `None`; the name fixes the type.
            match unsafe { transmute::<*mut c_void, Option<Function>>(OTHER.address()) } {
                // SAFETY: the caller's promise.
                Some(next) => OTHER.allocate($bytes, || unsafe { next($($arg),*) }),
                // SAFETY: the caller's promise.
                None => unsafe { served_by_c($bytes, $align) },
            }
        }
    )*};
}

macro_rules! reallocations {
    ($(unsafe fn $name:ident($block:ident: $pointer:ty $(, $arg:ident: $type:ty)*) => $bytes:expr;)*) => {$(
        /// The function of this name.
        ///
        /// # Safety
        /// As in the library that has it.
        #[unsafe(no_mangle)]
        unsafe extern "C-unwind" fn $name($block: $pointer $(, $arg: $type)*) -> *mut c_void {
            type Function = unsafe extern "C-unwind" fn($pointer $(, $type)*) -> *mut c_void;
            static OTHER: Other = Other::new(named!($name));
            // SAFETY: null is `None`; the name fixes the type.
            match unsafe { transmute::<*mut c_void, Option<Function>>(OTHER.address()) } {
                // SAFETY: the caller's promise.
                Some(next) => OTHER.reallocate($block, $bytes, || unsafe { next($block $(, $arg)*) }),
                // SAFETY: the caller's promise.
                None => unsafe { realloc($block, $bytes) },
            }
        }
    )*};
}

macro_rules! frees {
    ($(unsafe fn $name:ident($block:ident: $pointer:ty $(, $arg:ident: $type:ty)*);)*) => {$(
        /// The function of this name.
        ///
        /// # Safety
        /// As in the library that has it.
        #[unsafe(no_mangle)]
        unsafe extern "C-unwind" fn $name($block: $pointer $(, $arg: $type)*) {
            type Function = unsafe extern "C-unwind" fn($pointer $(, $type)*);
            static OTHER: Other = Other::new(named!($name));
            // SAFETY: null is `None`; the name fixes the type.
            match unsafe { transmute::<*mut c_void, Option<Function>>(OTHER.address()) } {
                // SAFETY: the caller's promise.
                Some(next) => OTHER.free($block, || unsafe { next($block $(, $arg)*) }),
                // SAFETY: the caller's promise.
                None => unsafe { free($block) },
            }
        }
    )*};
}

pub(crate) use {allocations, frees, reallocations};
