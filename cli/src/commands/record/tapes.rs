//! The tapes of a run that are kept, which several threads look at.

#![forbid(unsafe_code)]

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{Mutex, MutexGuard, PoisonError},
};

use memreel::recorder::TapeKeeper;

/// The tapes of a run; `None` for those that were let go.
pub(super) type Tapes = BTreeMap<PathBuf, Option<TapeKeeper>>;

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
