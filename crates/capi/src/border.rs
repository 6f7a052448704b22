//! The border that every C call crosses: it catches panics and keeps the text of failures.

use std::{
    cell::RefCell,
    ffi::{CStr, CString, c_char, c_int, c_void},
    io::{self, Write},
    panic::{self, AssertUnwindSafe},
    ptr,
};

use memreel::{Address, Error, Result};

thread_local! {
    static FAILURE: RefCell<Option<CString>> = const { RefCell::new(None) };
}

/// Runs a call and turns a panic into an error.
#[inline(always)]
pub(super) fn cross<T>(call: impl FnOnce() -> Result<T>) -> Result<T> {
    panic::catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|_| {
        Err(Error::misuse("memreel has a bug: it panicked; the panic message was written to stderr"))
    })
}

/// Runs a call like [`cross`]. Returns 0 for success and -1 for a failure, whose text it keeps.
#[inline(always)]
pub(super) fn status(call: impl FnOnce() -> Result<()>) -> c_int {
    cross(call).map_or_else(
        |error| {
            note(&error.to_string());
            -1
        },
        |()| 0,
    )
}

/// Keeps the text of a failure for [`memreel_error`].
pub(super) fn note(text: &str) {
    // A nul inside would end the text early. Only a path in the text could contain one.
    let text = CString::new(text.replace('\0', "?")).ok();
    let _ = FAILURE.try_with(|failure| failure.replace(text));
}

/// Prints the first line of a failure's text to stderr, for callers that do not check. [`memreel_error`] returns all of
/// it.
pub(super) fn print(text: &str) {
    // Not `eprintln!`, which panics where stderr is a closed pipe.
    let _ = writeln!(io::stderr(), "memreel: {}", text.lines().next().unwrap_or_default());
}

/// Reads a text argument; `what` names it in errors.
///
/// # Safety
/// The pointer is null, or points to characters that end in nul and live for `'a`.
pub(super) unsafe fn text<'a>(what: &'static str, pointer: *const c_char) -> Result<&'a str> {
    if pointer.is_null() {
        return Err(Error::misuse(format!("{what} is null")));
    }
    // SAFETY: the caller's promise.
    let text = unsafe { CStr::from_ptr(pointer) };
    text.to_str().map_err(|_| Error::misuse(format!("{what} is not UTF-8")))
}

/// Converts an address into a pointer for the caller.
pub(super) fn pointer(address: Address) -> *mut c_void {
    ptr::with_exposed_provenance_mut(usize::try_from(address.0).unwrap_or(0))
}

/// Returns the text of this thread's latest failure; null before the first. It
/// is valid until the thread's next call that fails.
#[unsafe(no_mangle)]
pub extern "C" fn memreel_error() -> *const c_char {
    let text = |failure: &RefCell<Option<CString>>| {
        failure.borrow().as_ref().map_or(ptr::null(), |text| text.as_ptr())
    };
    FAILURE.try_with(text).unwrap_or(ptr::null())
}
