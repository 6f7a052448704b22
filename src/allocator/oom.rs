//! Who is told when a request has failed (caching-allocator.md 3.5).
#![forbid(unsafe_code)]

use std::cell::Cell;

use crate::{error::OutOfMemory, sync::thread_local};

/// What is called when a request has failed, before its error is returned.
///
/// It runs outside the allocator's lock and may allocate, free or take a
/// snapshot. Requests that fail in it are not told to observers again.
pub type OomObserver = dyn Fn(&mut OutOfMemory) + Send + Sync;

thread_local! {
    static NOTIFYING: Cell<bool> = const { Cell::new(false) };
}

/// Held while this thread tells observers of a failed request.
pub(super) struct Notifying(());

impl Notifying {
    pub(super) fn enter() -> Option<Notifying> {
        let was = NOTIFYING.try_with(|notifying| notifying.replace(true)).unwrap_or(true);
        (!was).then_some(Notifying(()))
    }
}

impl Drop for Notifying {
    fn drop(&mut self) {
        let _ = NOTIFYING.try_with(|notifying| notifying.set(false));
    }
}
