//! Requests of the program itself to this library, as the Python package makes: a snapshot, and scopes.
//!
//! Like a wrapper, none of these functions records its own work, waits for a lock of the program or lets a panic out.

use std::{
    cell::RefCell,
    ffi::{CStr, CString, c_char, c_int},
    path::Path,
    ptr,
};

use memreel::{Error, Result, recorder::Scope};

use super::state::{State, is_recording, record};

thread_local! {
    static FAILURE: RefCell<Option<CString>> = const { RefCell::new(None) };
    static SCOPES: RefCell<Vec<Scope>> = const { RefCell::new(Vec::new()) };
}

/// Runs the program's request. Returns 0 for success and -1 for a failure, whose text it keeps.
fn answer(work: impl FnOnce(&'static State) -> Result<()>) -> c_int {
    // A wrapped call may be in progress on this thread, and hold a lock.
    if is_recording() {
        return -1;
    }
    let done = record(|state| work(state).map_err(|error| note(&error.to_string())).is_ok());
    if done.is_none() {
        // What is kept is not the program's, though nothing is recorded any more.
        note("this process is not recorded: the recording has ended or could not start");
    }
    if done == Some(true) { 0 } else { -1 }
}

/// Keeps the text of a failure for [`memreel_preload_error`].
fn note(text: &str) {
    let text = CString::new(text.replace('\0', "?")).ok();
    let _ = FAILURE.try_with(|failure| failure.replace(text));
}

/// Reads a text argument; `what` names it in errors.
///
/// # Safety
/// The pointer is null, or points to characters that end in nul and live for `'a`.
unsafe fn text<'a>(what: &'static str, pointer: *const c_char) -> Result<&'a str> {
    if pointer.is_null() {
        return Err(Error::misuse(format!("{what} is null")));
    }
    // SAFETY: the caller's promise.
    let text = unsafe { CStr::from_ptr(pointer) };
    text.to_str().map_err(|_| Error::misuse(format!("{what} is not UTF-8")))
}

/// Returns the text of this thread's latest failure; null before the first. It is valid until the thread's next failure.
#[unsafe(no_mangle)]
extern "C" fn memreel_preload_error() -> *const c_char {
    let text = |failure: &RefCell<Option<CString>>| {
        failure.borrow().as_ref().map_or(ptr::null(), |text| text.as_ptr())
    };
    FAILURE.try_with(text).unwrap_or(ptr::null())
}

/// Writes a snapshot of everything recorded so far. On failure, an existing file is unchanged.
///
/// # Safety
/// `path` is null or ends in nul.
#[unsafe(no_mangle)]
unsafe extern "C" fn memreel_preload_dump(path: *const c_char) -> c_int {
    // SAFETY: the caller's promise.
    answer(|state| state.save(Path::new(unsafe { text("the path", path)? })))
}

/// Begins a scope: this thread's allocations carry its name until [`memreel_preload_scope_end`].
///
/// # Safety
/// `name` is null or ends in nul.
#[unsafe(no_mangle)]
unsafe extern "C" fn memreel_preload_scope_begin(name: *const c_char) -> c_int {
    answer(|state| {
        // SAFETY: the caller's promise.
        let scope = state.recorder().scope(unsafe { text("the name", name)? });
        let _ = SCOPES.try_with(|scopes| scopes.borrow_mut().push(scope));
        Ok(())
    })
}

/// Ends the scope that this thread began last; fails if none is open.
#[unsafe(no_mangle)]
extern "C" fn memreel_preload_scope_end() -> c_int {
    answer(|_| {
        let scope = SCOPES.try_with(|scopes| scopes.borrow_mut().pop()).ok().flatten();
        scope.map(drop).ok_or_else(|| Error::misuse("no scope is open on this thread"))
    })
}
