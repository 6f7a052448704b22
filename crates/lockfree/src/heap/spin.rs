//! A lock that spins instead of waiting in the kernel, and that a fork can hold.

use std::{
    cell::UnsafeCell,
    marker::PhantomData,
    ops::{Deref, DerefMut},
    sync::atomic::Ordering,
};

use crate::sync::{AtomicBool, NotAtomic, Waits};

/// A one-byte lock, for sections of a few nanoseconds.
///
/// Taking a free lock is one atomic exchange, and releasing it one store; std's mutex needs two exchanges.
#[derive(Debug, Default)]
pub struct SpinLock<T> {
    is_locked: AtomicBool,
    /// Whether a fork of the process has the lock.
    is_held_by_fork: AtomicBool,
    value: UnsafeCell<T>,
    /// Of `value`.
    mark: NotAtomic,
}

// SAFETY: `value` is reached through a `SpinGuard` alone, and one thread at a time has one: `try_lock`'s exchange gives
// it to the thread that changed the flag from false to true. A `Sync` lock moves values between threads, hence `Send`.
unsafe impl<T: Send> Sync for SpinLock<T> {}

impl<T> SpinLock<T> {
    /// Takes the lock if it is free.
    #[inline(always)]
    pub fn try_lock(&self) -> Option<SpinGuard<'_, T>> {
        // Acquire: what the last owner did with the value is before. Relaxed: nothing follows from a lock that is taken. Not a
        // swap, which would write the flag then too: loom does not know that the owner's release comes after that.
        let taken = self.is_locked.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed);
        // Created only on success: dropping another guard would release the lock.
        taken.is_ok().then(|| SpinGuard { lock: self, value: PhantomData })
    }

    /// Takes the lock, waiting unless `gives_up` returns true, and until the wait gives up.
    #[inline(always)]
    pub fn lock<W: Waits>(&self, gives_up: impl Fn() -> bool) -> Option<SpinGuard<'_, T>> {
        self.try_lock().or_else(|| self.wait::<W>(gives_up))
    }

    #[cold]
    #[inline(never)]
    fn wait<W: Waits>(&self, gives_up: impl Fn() -> bool) -> Option<SpinGuard<'_, T>> {
        if gives_up() {
            return None;
        }
        for n in 0_u32.. {
            if !W::again(n) {
                return None;
            }
            // Relaxed: the exchange of `try_lock` takes the lock.
            if !self.is_locked.load(Ordering::Relaxed)
                && let Some(guard) = self.try_lock()
            {
                return Some(guard);
            }
        }
        None
    }

    /// Takes the lock if it is free, for a fork of the process; returns whether it did.
    pub(super) fn try_hold_for_fork(&self) -> bool {
        let Some(guard) = self.try_lock() else { return false };
        // Release: what the last owner did with the value is before a release by another thread.
        self.is_held_by_fork.store(true, Ordering::Release);
        std::mem::forget(guard);
        true
    }

    /// Releases the lock if a fork has it, in either process.
    pub(super) fn release_after_fork(&self) {
        if self.is_held_by_fork.swap(false, Ordering::Acquire) {
            self.is_locked.store(false, Ordering::Release);
        }
    }

    /// Releases the lock in a child of a fork, where the thread that has it does not exist.
    pub(super) fn release_in_child(&self) {
        self.is_locked.store(false, Ordering::Release);
    }
}

/// The right to use the value of a lock; dropping it releases the lock.
#[derive(Debug)]
pub struct SpinGuard<'a, T> {
    lock: &'a SpinLock<T>,
    /// It gives out references to the value, so threads may share it only if they may share the value.
    value: PhantomData<&'a mut T>,
}

impl<T> Deref for SpinGuard<'_, T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        self.lock.mark.read();
        // SAFETY: this guard has the lock, so no other reference to the value is alive but those from this guard.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T> DerefMut for SpinGuard<'_, T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        self.lock.mark.write();
        // SAFETY: this guard has the lock and is borrowed exclusively, so no other reference to the value is alive.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T> Drop for SpinGuard<'_, T> {
    #[inline(always)]
    fn drop(&mut self) {
        // Release: what was done with the value is before the next exchange.
        self.lock.is_locked.store(false, Ordering::Release);
    }
}

#[cfg(all(test, not(memreel_loom)))]
mod tests {
    use std::thread;

    use super::*;
    use crate::testing::Yields;

    #[test]
    fn threads_change_a_value_one_after_the_other() {
        let n_each = if cfg!(miri) { 100 } else { 20_000 };
        let lock = SpinLock::<u64>::default();
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..n_each).for_each(|_| *lock.lock::<Yields>(|| false).unwrap() += 1));
            }
        });
        assert_eq!(*lock.lock::<Yields>(|| false).unwrap(), 4 * n_each);
    }

    #[test]
    fn a_waiter_may_give_up_and_a_fork_may_hold() {
        let lock = SpinLock::<u64>::default();
        let first = lock.try_lock();
        assert!(lock.lock::<Yields>(|| true).is_none() && !lock.try_hold_for_fork());
        lock.release_after_fork();
        assert!(lock.try_lock().is_none(), "the fork did not have it");
        drop(first);
        assert!(lock.try_hold_for_fork() && lock.try_lock().is_none());
        lock.release_after_fork();
        assert!(lock.try_lock().is_some());
    }
}
