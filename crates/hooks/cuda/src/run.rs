//! Determines whether programs that this process starts can be recorded in the folder of the run.
#![forbid(unsafe_code)]

use std::sync::atomic::{AtomicBool, Ordering};

use memreel::integrate;

/// Whether this process has no tape, and so neither have the programs that it starts. Relaxed, as below: it is set before they are
/// started.
static HAS_NONE: AtomicBool = AtomicBool::new(false);

/// Whether this process gave rights away.
static HAS_GIVEN_RIGHTS: AtomicBool = AtomicBool::new(false);

/// Records that this process could not write a tape, which it has reported: the programs that it starts would report it
/// again.
pub(crate) fn leave() {
    HAS_NONE.store(true, Ordering::Relaxed);
}

/// Records that this process gave up rights.
pub(crate) fn give_rights() {
    HAS_GIVEN_RIGHTS.store(true, Ordering::Relaxed);
}

/// Returns whether a program that is started now cannot write a tape; `is_refused` is whether this process may not.
/// Such programs are counted in this process's tape.
pub(crate) fn is_left(is_refused: impl FnOnce() -> bool) -> bool {
    if HAS_NONE.load(Ordering::Relaxed) {
        return true;
    }
    let is_left = HAS_GIVEN_RIGHTS.load(Ordering::Relaxed) && is_refused();
    if is_left {
        integrate::count_unrecorded();
    }
    is_left
}
