//! The end of the program: takes the last look at its memory, before the driver shuts down.

use std::sync::atomic::{AtomicBool, Ordering};

use super::{
    looks::last_look,
    nested::Outermost,
    state::{is_forked, is_recording, record, switch_off},
};

/// Detects the end of the program.
///
/// Called when a context exists: what is registered later runs earlier, so this comes before the end of the driver.
pub(crate) fn watch() {
    static IS_WATCHED: AtomicBool = AtomicBool::new(false);
    // Relaxed: one thread registers it, and nothing is read because of it.
    if !IS_WATCHED.swap(true, Ordering::Relaxed) {
        // SAFETY: the function is never unloaded: the library is preloaded.
        unsafe { libc::atexit(at_exit) };
    }
}

/// What the end frees is not recorded: users want to know what the program held at its end.
///
/// A handler of a signal may call `exit` within a wrapped call, whose locks are taken then; and a child of `fork` may not
/// call the driver.
extern "C" fn at_exit() {
    let outermost = Outermost::begin();
    if outermost.is_some() && !is_recording() && !is_forked() {
        record(last_look);
    }
    switch_off();
}
