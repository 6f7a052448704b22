//! Functions that are called under no lock.
#![forbid(unsafe_code)]

use std::{fmt, sync::Arc};

use crate::sync::{Mutex, lock};

/// The observers of an allocator, of type `F`.
pub struct Observers<F: ?Sized>(Mutex<Vec<Arc<F>>>);

impl<F: ?Sized> Default for Observers<F> {
    fn default() -> Observers<F> {
        Observers(Mutex::new(Vec::new()))
    }
}

impl<F: ?Sized> fmt::Debug for Observers<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Observers").finish_non_exhaustive()
    }
}

impl<F: ?Sized> Observers<F> {
    /// Adds an observer.
    pub fn add(&self, observer: Arc<F>) {
        lock(&self.0).push(observer);
    }

    /// Calls `tell` with each observer. It may call the allocator, and add observers, so no lock is held.
    pub fn each(&self, tell: impl FnMut(&Arc<F>)) {
        let all = lock(&self.0).clone();
        all.iter().for_each(tell);
    }

    /// Returns the lock of the list.
    pub fn mutex(&self) -> &Mutex<Vec<Arc<F>>> {
        &self.0
    }
}
