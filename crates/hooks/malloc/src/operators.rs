//! C++'s `operator new` and `operator delete`, and the frees of C23.
//!
//! tcmalloc, jemalloc and mimalloc have their own operators, which do not call `malloc`.
#![allow(non_snake_case, reason = "the names of C++ as linkers know them")]

use std::{ffi::c_void, mem::transmute};

use super::{
    functions::free,
    next::named,
    other::Other,
    wrapped::{allocations, frees, served_by_c},
};

/// `std::nothrow`.
type Nothrow = *const c_void;

allocations! {
    unsafe fn _Znwm(bytes: usize) => bytes, 1;
    unsafe fn _Znam(bytes: usize) => bytes, 1;
    unsafe fn _ZnwmRKSt9nothrow_t(bytes: usize, nothrow: Nothrow) => bytes, 1;
    unsafe fn _ZnamRKSt9nothrow_t(bytes: usize, nothrow: Nothrow) => bytes, 1;
    unsafe fn _ZnwmSt11align_val_t(bytes: usize, align: usize) => bytes, align;
    unsafe fn _ZnamSt11align_val_t(bytes: usize, align: usize) => bytes, align;
    unsafe fn _ZnwmSt11align_val_tRKSt9nothrow_t(bytes: usize, align: usize, nothrow: Nothrow) => bytes, align;
    unsafe fn _ZnamSt11align_val_tRKSt9nothrow_t(bytes: usize, align: usize, nothrow: Nothrow) => bytes, align;
}

frees! {
    unsafe fn _ZdlPv(block: *mut c_void);
    unsafe fn _ZdaPv(block: *mut c_void);
    unsafe fn _ZdlPvRKSt9nothrow_t(block: *mut c_void, nothrow: Nothrow);
    unsafe fn _ZdaPvRKSt9nothrow_t(block: *mut c_void, nothrow: Nothrow);
    unsafe fn _ZdlPvm(block: *mut c_void, bytes: usize);
    unsafe fn _ZdaPvm(block: *mut c_void, bytes: usize);
    unsafe fn _ZdlPvSt11align_val_t(block: *mut c_void, align: usize);
    unsafe fn _ZdaPvSt11align_val_t(block: *mut c_void, align: usize);
    unsafe fn _ZdlPvSt11align_val_tRKSt9nothrow_t(block: *mut c_void, align: usize, nothrow: Nothrow);
    unsafe fn _ZdaPvSt11align_val_tRKSt9nothrow_t(block: *mut c_void, align: usize, nothrow: Nothrow);
    unsafe fn _ZdlPvmSt11align_val_t(block: *mut c_void, bytes: usize, align: usize);
    unsafe fn _ZdaPvmSt11align_val_t(block: *mut c_void, bytes: usize, align: usize);
    unsafe fn free_sized(block: *mut c_void, bytes: usize);
    unsafe fn free_aligned_sized(block: *mut c_void, align: usize, bytes: usize);
    unsafe fn cfree(block: *mut c_void);
}
