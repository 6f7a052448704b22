//! Observers that are called for failed requests (`docs/caching-allocator.md` 3.5).
#![forbid(unsafe_code)]

use std::cell::Cell;

use memreel_lockfree::sync::ReentryGuard;
use memreel_snapshot::words::OutOfMemory;

/// A function that is called when a request has failed, before the error is returned.
///
/// It runs outside the allocator's lock and may allocate, free or take a
/// snapshot. Requests that fail inside it do not notify observers.
pub type OomObserver = dyn Fn(&mut OutOfMemory) + Send + Sync;

thread_local! {
    /// Whether this thread is calling the observers of a failed request.
    static NOTIFYING: Cell<bool> = const { Cell::new(false) };
}

/// Returns a guard for calling the observers, or `None` if this thread is already calling them.
pub(super) fn enter_notification() -> Option<ReentryGuard> {
    ReentryGuard::enter(&NOTIFYING)
}
