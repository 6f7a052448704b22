//! C++'s `operator new` and `operator delete`, and the frees of C23.
//!
//! tcmalloc, jemalloc and mimalloc have operators of their own, which do not call `malloc`.
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
    _Znwm(bytes: usize) => bytes, 1;
    _Znam(bytes: usize) => bytes, 1;
    _ZnwmRKSt9nothrow_t(bytes: usize, nothrow: Nothrow) => bytes, 1;
    _ZnamRKSt9nothrow_t(bytes: usize, nothrow: Nothrow) => bytes, 1;
    _ZnwmSt11align_val_t(bytes: usize, align: usize) => bytes, align;
    _ZnamSt11align_val_t(bytes: usize, align: usize) => bytes, align;
    _ZnwmSt11align_val_tRKSt9nothrow_t(bytes: usize, align: usize, nothrow: Nothrow) => bytes, align;
    _ZnamSt11align_val_tRKSt9nothrow_t(bytes: usize, align: usize, nothrow: Nothrow) => bytes, align;
}

frees! {
    _ZdlPv(block: *mut c_void);
    _ZdaPv(block: *mut c_void);
    _ZdlPvRKSt9nothrow_t(block: *mut c_void, nothrow: Nothrow);
    _ZdaPvRKSt9nothrow_t(block: *mut c_void, nothrow: Nothrow);
    _ZdlPvm(block: *mut c_void, bytes: usize);
    _ZdaPvm(block: *mut c_void, bytes: usize);
    _ZdlPvSt11align_val_t(block: *mut c_void, align: usize);
    _ZdaPvSt11align_val_t(block: *mut c_void, align: usize);
    _ZdlPvSt11align_val_tRKSt9nothrow_t(block: *mut c_void, align: usize, nothrow: Nothrow);
    _ZdaPvSt11align_val_tRKSt9nothrow_t(block: *mut c_void, align: usize, nothrow: Nothrow);
    _ZdlPvmSt11align_val_t(block: *mut c_void, bytes: usize, align: usize);
    _ZdaPvmSt11align_val_t(block: *mut c_void, bytes: usize, align: usize);
    free_sized(block: *mut c_void, bytes: usize);
    free_aligned_sized(block: *mut c_void, align: usize, bytes: usize);
    cfree(block: *mut c_void);
}
