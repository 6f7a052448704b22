//! Orders fork handlers: memreel's are the first in the C library's list, even if a library registers earlier.
//!
//! Handlers before a fork are called last first. So those of all libraries have been called when memreel takes its
//! locks: they may allocate, and wait for threads that do. Only the allocator's come after memreel's, which allocates
//! from it under its locks.

use std::{
    ffi::{CStr, c_int, c_void},
    mem::transmute,
    sync::atomic::{AtomicBool, Ordering},
};

use super::{
    asked,
    libraries::{first_of, library_of},
    next,
};

type Handler = Option<extern "C" fn()>;

/// Whether memreel's handlers are registered, or are about to be.
static IS_BEGUN: AtomicBool = AtomicBool::new(false);

/// The C library's function, which `pthread_atfork` calls.
///
/// # Safety
/// As in the C library.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn __register_atfork(
    prepare: Handler,
    parent: Handler,
    child: Handler,
    library: *mut c_void,
) -> c_int {
    let first = [prepare, parent, child].into_iter().flatten().next();
    match first.map_or(Of::Program, |handler| of(handler as *mut c_void)) {
        Of::Memreel => IS_BEGUN.store(true, Ordering::Release),
        Of::Program => begin(),
        // Of handlers that are in the list before memreel's, those before a fork are called after memreel's.
        Of::Allocator if !IS_BEGUN.load(Ordering::Acquire) => {}
        Of::Allocator => {
            if let Some(register) = function(c"memreel_forks_allocator") {
                type Register = extern "C" fn(Handler, Handler, Handler);
                // SAFETY: the other library fixes the type of its function.
                unsafe { transmute::<*mut c_void, Register>(register)(prepare, parent, child) };
                return 0;
            }
        }
    }
    // SAFETY: the caller's promise.
    next::__register_atfork().map_or(libc::ENOMEM, |next| unsafe { next(prepare, parent, child, library) })
}

/// Registers memreel's handlers, if a recording was requested.
pub(crate) fn begin() {
    if !IS_BEGUN.load(Ordering::Acquire)
        && asked::is_asked_for()
        && let Some(begin) = function(c"memreel_forks_begin")
    {
        // SAFETY: the other library fixes the type of its function.
        unsafe { transmute::<*mut c_void, extern "C" fn()>(begin)() };
    }
}

/// The owner of a handler.
enum Of {
    Program,
    Memreel,
    Allocator,
}

fn of(handler: *mut c_void) -> Of {
    let library = library_of(handler);
    let is_of = |other: Option<*mut c_void>| other.is_some_and(|other| library_of(other) == library);
    if is_of(function(c"memreel_forks_begin")) {
        Of::Memreel
    } else if is_of(next::malloc().map(|malloc| malloc as *mut c_void))
        && !is_of(function(c"gnu_get_libc_version"))
    {
        Of::Allocator
    } else {
        Of::Program
    }
}

fn function(name: &CStr) -> Option<*mut c_void> {
    let found = first_of(name);
    (!found.is_null()).then_some(found)
}
