//! The recorder never records itself.

use std::cell::Cell;

use crate::sync::thread_local;

thread_local! {
    static RECORDING: Cell<bool> = const { Cell::new(false) };
}

/// Held while this thread captures a stack or pushes an event. Whoever finds it
/// held is the recorder's own doing, and is not recorded.
#[derive(Debug)]
pub(super) struct Guard(());

impl Guard {
    /// The guard, or `None` while this thread holds it or is ending.
    pub(super) fn enter() -> Option<Guard> {
        let was = RECORDING.try_with(|recording| recording.replace(true)).unwrap_or(true);
        // Made only if it is given out: one that is dropped here would end the first.
        (!was).then(|| Guard(()))
    }
}

impl Guard {
    /// Whether this thread is at the recorder's own work.
    #[inline]
    pub(super) fn is_held() -> bool {
        RECORDING.try_with(Cell::get).unwrap_or(true)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        // The thread's storage outlives a guard that was given out from it.
        let _ = RECORDING.try_with(|recording| recording.set(false));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guard_is_given_once_and_survives_a_panic() {
        let first = Guard::enter();
        assert!(first.is_some());
        assert!(Guard::enter().is_none());
        assert!(Guard::enter().is_none(), "a refusal does not end the first");
        assert!(Guard::is_held());
        drop(first);
        assert!(!Guard::is_held());
        let panicked = std::panic::catch_unwind(|| {
            let _guard = Guard::enter();
            panic!("while recording");
        });
        assert!(panicked.is_err());
        assert!(Guard::enter().is_some());
    }
}
