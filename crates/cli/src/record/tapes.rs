//! The tapes of a run that are kept, shared by several threads.

#![forbid(unsafe_code)]

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use memreel::TapeKeeper;

use crate::run::tape_file::TapeFile;

/// The tapes of a run; `None` for those that were let go, and for those of processes that had ended when they were found.
pub(super) type Tapes = BTreeMap<TapeFile, Option<TapeKeeper>>;

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
