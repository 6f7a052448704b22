//! A lock that spins instead of waiting in the kernel, and that a fork can hold.

use std::{
    cell::UnsafeCell,
    ops::{Deref, DerefMut},
    sync::atomic::Ordering,
};

#[cfg(not(loom))]
use crate::process::fork;
use crate::process::{
    pause,
    sync::{AtomicBool, NotAtomic},
};

/// A one-byte lock, for sections of a few nanoseconds.
///
/// Taking a free lock is one atomic exchange, and releasing it one store; std's mutex needs two exchanges.
#[derive(Debug, Default)]
pub(super) struct SpinLock<T> {
    is_locked: AtomicBool,
    /// Whether a fork of the process has the lock. Relaxed: only the thread that forks uses it, in either process.
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
    pub(super) fn try_lock(&self) -> Option<SpinGuard<'_, T>> {
        // Acquire: what the last owner did with the value is before. Relaxed: nothing follows from a lock that is taken. Not a
        // swap, which would write the flag then too: loom does not know that the owner's release comes after that.
        let taken = self.is_locked.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed);
        // Created only on success: dropping another guard would release the lock.
        taken.is_ok().then(|| SpinGuard { lock: self })
    }

    /// Takes the lock, waiting unless `gives_up` returns true. Does not wait for a fork that is stuck.
    #[inline(always)]
    pub(super) fn lock(&self, gives_up: impl Fn() -> bool) -> Option<SpinGuard<'_, T>> {
        self.try_lock().or_else(|| self.wait(gives_up))
    }

    #[cold]
    #[inline(never)]
    fn wait(&self, gives_up: impl Fn() -> bool) -> Option<SpinGuard<'_, T>> {
        if gives_up() {
            return None;
        }
        for n in 0_u32.. {
            #[cfg(not(loom))]
            if fork::is_stuck(n) {
                return None;
            }
            pause::again(n);
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
    #[cfg_attr(loom, allow(dead_code, reason = "nothing forks"))]
    pub(super) fn try_hold_for_fork(&self) -> bool {
        let Some(guard) = self.try_lock() else { return false };
        self.is_held_by_fork.store(true, Ordering::Relaxed);
        std::mem::forget(guard);
        true
    }

    /// Releases the lock if a fork has it, in either process.
    #[cfg_attr(loom, allow(dead_code, reason = "nothing forks"))]
    pub(super) fn release_after_fork(&self) {
        if self.is_held_by_fork.swap(false, Ordering::Relaxed) {
            self.is_locked.store(false, Ordering::Release);
        }
    }

    /// Releases the lock in a child of a fork, where the thread that has it does not exist.
    #[cfg_attr(loom, allow(dead_code, reason = "nothing forks"))]
    pub(super) fn release_in_child(&self) {
        self.is_locked.store(false, Ordering::Release);
    }
}

/// The right to use the value of a lock; dropping it releases the lock.
pub(super) struct SpinGuard<'a, T> {
    lock: &'a SpinLock<T>,
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

#[cfg(all(test, not(loom)))]
mod tests {
    #[cfg(all(target_os = "linux", not(miri)))]
    use std::sync::LazyLock;
    use std::{thread, time::Duration};

    use super::*;

    #[test]
    fn threads_change_a_value_one_after_the_other() {
        let n_each = if cfg!(miri) { 100 } else { 20_000 };
        let lock = SpinLock::<u64>::default();
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..n_each).for_each(|_| *lock.lock(|| false).unwrap() += 1));
            }
        });
        assert_eq!(*lock.lock(|| false).unwrap(), 4 * n_each);
    }

    /// If a cancelled thread ended inside a wait, it would unwind through the program's `malloc`.
    #[test]
    #[cfg(all(target_os = "linux", not(miri)))]
    fn a_cancelled_thread_waits_on() {
        static LOCK: LazyLock<SpinLock<u64>> = LazyLock::new(SpinLock::default);
        extern "C" fn waits(_: *mut libc::c_void) -> *mut libc::c_void {
            *LOCK.lock(|| false).unwrap() += 1;
            std::ptr::null_mut()
        }
        let held = LOCK.try_lock().unwrap();
        // SAFETY: the thread is joined, and what it does is sound in any thread.
        unsafe {
            let mut thread = 0;
            assert_eq!(
                libc::pthread_create(&raw mut thread, std::ptr::null(), waits, std::ptr::null_mut()),
                0
            );
            thread::sleep(Duration::from_millis(20));
            assert_eq!(libc::pthread_cancel(thread), 0);
            thread::sleep(Duration::from_millis(20));
            drop(held);
            assert_eq!(libc::pthread_join(thread, std::ptr::null_mut()), 0);
        }
        assert_eq!(*LOCK.try_lock().unwrap(), 1);
    }

    #[test]
    fn a_waiter_may_give_up_and_a_fork_may_hold() {
        let lock = SpinLock::<u64>::default();
        let first = lock.try_lock();
        assert!(lock.lock(|| true).is_none() && !lock.try_hold_for_fork());
        lock.release_after_fork();
        assert!(lock.try_lock().is_none(), "the fork did not have it");
        drop(first);
        assert!(lock.try_hold_for_fork() && lock.try_lock().is_none());
        lock.release_after_fork();
        assert!(lock.try_lock().is_some());
    }
}
