//! Who is told when a request has failed (caching-allocator.md 3.5).
#![forbid(unsafe_code)]

use std::{
    cell::Cell,
    sync::{Arc, PoisonError},
};

use super::Shared;
use crate::{
    error::{Error, OutOfMemory},
    sync::{MutexGuard, thread_local},
};

/// What is called when a request has failed, before its error is returned.
///
/// It runs outside the allocator's lock and may allocate, free or take a
/// snapshot. Requests that fail in it are not told to observers again.
pub type OomObserver = dyn Fn(&mut OutOfMemory) + Send + Sync;

impl Shared {
    pub(super) fn oom_observers(&self) -> MutexGuard<'_, Vec<Arc<OomObserver>>> {
        self.oom_observers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cold]
    pub(super) fn tell_observers(&self, error: Error) -> Error {
        let Some(figures) = error.out_of_memory() else { return error };
        let mut figures = figures.clone();
        // An observer's own request may fail too; telling the observers of
        // that would not end.
        let Some(_telling) = Telling::enter() else { return error };
        let observers = self.oom_observers().clone();
        observers.iter().for_each(|observer| observer(&mut figures));
        Error::from_out_of_memory(figures)
    }
}

thread_local! {
    static TELLING: Cell<bool> = const { Cell::new(false) };
}

/// Held while this thread tells observers of a failed request.
struct Telling(());

impl Telling {
    fn enter() -> Option<Telling> {
        let was = TELLING.try_with(|telling| telling.replace(true)).unwrap_or(true);
        (!was).then_some(Telling(()))
    }
}

impl Drop for Telling {
    fn drop(&mut self) {
        let _ = TELLING.try_with(|telling| telling.set(false));
    }
}
