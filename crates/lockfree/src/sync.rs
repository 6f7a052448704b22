//! Locks, atomics and thread-locals: std's, or loom's while the models explore every interleaving.
//!
//! `Arc` is always std's: loom's cannot contain a trait object, and nothing here depends on the order of
//! reference counts.

#[cfg(not(memreel_loom))]
pub(crate) use std::thread::LocalKey;
use std::{cell::Cell, sync::PoisonError};

#[cfg(memreel_loom)]
pub(crate) use loom::thread::LocalKey;

#[cfg(not(memreel_loom))]
pub(crate) use std::{
    sync::{
        Mutex, MutexGuard,
        atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, fence},
    },
    thread_local,
};

#[cfg(memreel_loom)]
pub(crate) use loom::sync::{
    Mutex, MutexGuard,
    atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, fence},
};

/// Declares a thread-local of loom, whose threads share one system thread. Its macro does not support `const` blocks.
#[cfg(memreel_loom)]
macro_rules! loom_thread_local {
    ($(#[$meta:meta])* static $name:ident: $type:ty = const { $init:expr };) => {
        loom::thread_local! { $(#[$meta])* static $name: $type = $init; }
    };
}

#[cfg(memreel_loom)]
pub(crate) use loom_thread_local as thread_local;

/// A mark on memory that is not atomic. Under loom it fails unless each write is ordered with every other write and
/// read; elsewhere it does nothing.
#[derive(Debug, Default)]
pub struct NotAtomic(#[cfg(memreel_loom)] loom::cell::UnsafeCell<()>);

impl NotAtomic {
    /// Marks a write.
    #[inline(always)]
    pub fn write(&self) {
        #[cfg(memreel_loom)]
        self.0.with_mut(|_| {});
    }

    /// Marks a read.
    #[inline(always)]
    pub fn read(&self) {
        #[cfg(memreel_loom)]
        self.0.with(|_| {});
    }
}

// SAFETY: nothing is in the cell; loom only remembers which thread was there when.
#[cfg(memreel_loom)]
unsafe impl Sync for NotAtomic {}

/// Waits for what another thread has for a few nanoseconds.
pub trait Waits {
    /// Waits for the `n`th time; returns `false` if the caller is to give up instead.
    fn again(n: u32) -> bool;
}

/// Locks a mutex, even if a thread panicked while it had the lock: every critical section of the callers leaves its
/// data consistent.
#[inline]
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Marks work on this thread that must not be re-entered.
///
/// The flag is cleared when the guard is dropped, even by a panic.
#[derive(Debug)]
pub struct ReentryGuard {
    flag: &'static LocalKey<Cell<bool>>,
}

impl ReentryGuard {
    /// Sets the thread's flag. Returns `None` if it is already set, or if the thread is being destroyed and
    /// has no storage.
    #[inline]
    pub fn enter(flag: &'static LocalKey<Cell<bool>>) -> Option<ReentryGuard> {
        let was_set = flag.try_with(|flag| flag.replace(true)).unwrap_or(true);
        // Created only on success: dropping a second guard would clear the flag of the first.
        (!was_set).then(|| ReentryGuard { flag })
    }

    /// Returns whether the thread's flag is set; also `true` if the thread has no storage.
    #[inline]
    pub fn is_held(flag: &'static LocalKey<Cell<bool>>) -> bool {
        flag.try_with(Cell::get).unwrap_or(true)
    }
}

impl Drop for ReentryGuard {
    #[inline]
    fn drop(&mut self) {
        // Without storage there is no flag to clear.
        let _ = self.flag.try_with(|flag| flag.set(false));
    }
}

#[cfg(all(test, not(memreel_loom)))]
mod tests {
    use super::*;

    thread_local! {
        static WORKING: Cell<bool> = const { Cell::new(false) };
    }

    #[test]
    fn a_guard_is_given_once_and_released_by_a_panic() {
        let first = ReentryGuard::enter(&WORKING);
        assert!(first.is_some());
        assert!(ReentryGuard::enter(&WORKING).is_none());
        assert!(ReentryGuard::enter(&WORKING).is_none(), "a refusal does not release the first");
        assert!(ReentryGuard::is_held(&WORKING));
        drop(first);
        assert!(!ReentryGuard::is_held(&WORKING));
        let panicked = std::panic::catch_unwind(|| {
            let _guard = ReentryGuard::enter(&WORKING);
            panic!("while working");
        });
        assert!(panicked.is_err());
        assert!(ReentryGuard::enter(&WORKING).is_some());
    }
}
