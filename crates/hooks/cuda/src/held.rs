//! State of the process behind a lock that each fork holds, so that no other thread has it in the child.
#![forbid(unsafe_code)]

use std::{
    hash::Hash,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use memreel::integrate::hold_at_forks;
use once_cell::race::OnceBox;
use rustc_hash::FxHashMap;

use super::{state::record, types::Status};

/// A value behind a lock, created at the first use.
pub(crate) struct HeldCell<T>(OnceBox<Arc<Mutex<T>>>);

/// A map behind a lock.
pub(crate) type HeldMap<K, V> = HeldCell<FxHashMap<K, V>>;

impl<T: Default + Send + 'static> HeldCell<T> {
    pub(crate) const fn new() -> HeldCell<T> {
        HeldCell(OnceBox::new())
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        let value = self.0.get_or_init(|| {
            let value = Arc::default();
            hold_at_forks(&value);
            Box::new(value)
        });
        value.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Copy + Eq + Hash + Send + 'static, V: Copy + Send + 'static> HeldMap<K, V> {
    /// Removes a row before `call` ends its subject, and restores it if that fails. Without a row, `call` is not
    /// called.
    pub(crate) fn end(&self, key: K, call: impl FnOnce(V) -> Status) -> Option<Status> {
        let value = record(|_| self.lock().remove(&key)).flatten()?;
        let status = call(value);
        if !status.is_success() {
            record(|_| self.lock().insert(key, value));
        }
        Some(status)
    }
}
