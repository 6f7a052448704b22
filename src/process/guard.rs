//! Keeps the recorder from recording its own work.
//!
//! A recorder may be used inside the process's own allocator. Then its own allocations (a new chunk, a longer table)
//! are reported to it, while it may have one of its locks or be in the middle of an event. Recording them would
//! deadlock or recurse without end. So a thread sets a flag while it does the recorder's work, and what is reported
//! while the flag is set is not recorded.
#![forbid(unsafe_code)]

use std::cell::Cell;

use memreel_lockfree::sync::ReentryGuard;

use super::wiped;

thread_local! {
    static RECORDING: Cell<bool> = const { Cell::new(false) };
}

/// Marks the recorder's own work on this thread while it exists: capturing a stack, changing a table, taking
/// or returning a chunk.
pub(crate) struct Guard {
    _flag: ReentryGuard,
}

impl Guard {
    /// Returns the guard, or `None` if this thread already has one or is being destroyed, and in a child whose fork no
    /// handler saw (`wiped.rs`): code that takes the guard first, such as the process's heap, records nothing there.
    pub(crate) fn enter() -> Option<Guard> {
        if wiped::is_stranger() {
            wiped::count_stranger();
            return None;
        }
        ReentryGuard::enter(&RECORDING).map(|flag| Guard { _flag: flag })
    }

    /// Returns whether this thread is doing the recorder's work; also `true` if the thread is being destroyed.
    #[inline]
    pub(crate) fn is_held() -> bool {
        ReentryGuard::is_held(&RECORDING)
    }
}
