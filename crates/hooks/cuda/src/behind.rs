//! Finds the C library's function that a wrapper of the same name calls.

use std::{
    ffi::{CStr, c_void},
    ptr,
    sync::atomic::{AtomicPtr, Ordering},
};

use super::loader;

/// The function with a name in the libraries after this one.
#[derive(Debug)]
pub(crate) struct Behind {
    name: &'static CStr,
    found: AtomicPtr<c_void>,
}

impl Behind {
    pub(crate) const fn new(name: &'static CStr) -> Behind {
        Behind { name, found: AtomicPtr::new(ptr::null_mut()) }
    }

    /// Returns its address, which the first call finds; null if there is none. The first call must be made while this
    /// library is loaded: in a child of `fork` another thread may have the loader's lock.
    pub(crate) fn address(&self) -> *mut c_void {
        // Relaxed: threads at once store the same.
        let known = self.found.load(Ordering::Relaxed);
        if !known.is_null() {
            return known;
        }
        let found = loader::behind(self.name);
        self.found.store(found, Ordering::Relaxed);
        found
    }
}

/// Wraps functions of the C library that return a status: `first` runs before, and `then` gets the status.
macro_rules! before_and_after {
    ($first:path, $then:path; $($name:ident($($argument:ident: $type:ty),*);)*) => {
        $(
            /// The C library's function.
            ///
            /// # Safety
            /// As in the C library.
            #[unsafe(no_mangle)]
            pub(crate) unsafe extern "C" fn $name($($argument: $type),*) -> libc::c_int {
                type Function = unsafe extern "C" fn($($type),*) -> libc::c_int;
                let next = behind::$name.address();
                if next.is_null() {
                    return -1;
                }
                $first();
                // SAFETY: the name fixes the type.
                let next = unsafe { std::mem::transmute::<*mut std::ffi::c_void, Function>(next) };
                // SAFETY: the caller's promise.
                let status = unsafe { next($($argument),*) };
                $then(status);
                status
            }
        )*

        /// The functions behind the wrappers.
        #[allow(non_upper_case_globals, reason = "they have the names of the wrappers")]
        mod behind {
            use crate::behind::Behind;

            $(pub(super) static $name: Behind = Behind::new(
                match std::ffi::CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                    Ok(name) => name,
                    Err(_) => c"",
                },
            );)*

            pub(super) static ALL: &[&Behind] = &[$(&$name),*];
        }
    };
}

pub(crate) use before_and_after;
