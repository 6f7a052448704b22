//! The end of the program: the last look at its memory, before the driver takes it down.

use std::sync::atomic::{AtomicBool, Ordering};

use super::{
    looks::last_look,
    state::{record, switch_off},
};

/// Has the end of the program noticed.
///
/// Called when a context exists: what is registered later runs earlier, so this comes before the end of the driver.
pub(crate) fn watch() {
    static IS_WATCHED: AtomicBool = AtomicBool::new(false);
    if !IS_WATCHED.swap(true, Ordering::Relaxed) {
        // SAFETY: the function is never unloaded: the library is preloaded.
        unsafe { libc::atexit(at_exit) };
    }
}

/// What the end frees is not recorded: what the program held at its end is the answer to a question.
extern "C" fn at_exit() {
    record(last_look);
    switch_off();
}
