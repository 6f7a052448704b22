//! The turn to call a device. The lock of the allocator's core is released during such a call.
//!
//! A call of a device can take long: it may wait for work that is queued on a GPU, and that work may wait for a
//! thread that frees or allocates a block. So no such call is made under the core's lock. Two locks share the work:
//!
//! - The *core's lock* protects every field of the core. What needs no call of the device needs only this lock.
//! - The *turn* is taken first, by a thread that may have to call the device. So a request that finds the device full has
//!   already waited for memory that another thread was returning.
//!
//! The holder of the turn has both locks. [`Growth::unlocked`] releases the core's lock for one call of the device.
#![forbid(unsafe_code)]

use std::{
    fmt::Debug,
    ops::{Deref, DerefMut},
};

use crate::sync::{Mutex, MutexGuard, lock};

/// What a core's lock protects.
pub trait Core {
    /// Changes with every allocation and every completed free.
    type Version: PartialEq + Debug;
    /// A mark on a stream.
    type Mark;

    /// Returns the version.
    fn version(&self) -> Self::Version;

    /// Returns the mark that a call of the device waits for. No other thread may forget it.
    fn awaited(&mut self) -> &mut Option<Self::Mark>;
}

/// A core and the turn to call its device.
#[derive(Debug)]
pub struct Turn<C> {
    /// Taken before the core's lock.
    turn: Mutex<()>,
    core: Mutex<C>,
}

impl<C: Core> Turn<C> {
    /// Returns a core that no thread has locked.
    pub fn new(core: C) -> Turn<C> {
        Turn { turn: Mutex::new(()), core: Mutex::new(core) }
    }

    /// Locks the core.
    #[inline]
    pub fn core(&self) -> MutexGuard<'_, C> {
        // A panic under the lock would be a bug in the core. Its blocks should
        // still be freed, so a poisoned lock is not an error.
        lock(&self.core)
    }

    /// Waits until no other thread has the turn, then locks the core. The caller has neither.
    pub fn grow(&self) -> Growth<'_, C> {
        let turn = lock(&self.turn);
        let core = Some(self.core());
        Growth { core, mutex: &self.core, is_stale: true, is_waiting: false, _turn: turn }
    }

    /// Returns both locks, in the order in which a fork takes them: the turn first, because a thread that calls the device has
    /// not completed its changes to the core.
    pub fn locks(&self) -> (&Mutex<()>, &Mutex<C>) {
        (&self.turn, &self.core)
    }
}

/// The core, locked by the thread that has the turn to call the device.
#[derive(Debug)]
pub struct Growth<'a, C: Core> {
    /// `None` only during a call of the device.
    core: Option<MutexGuard<'a, C>>,
    mutex: &'a Mutex<C>,
    /// Whether another thread may have changed the core since [`Growth::take_stale`].
    is_stale: bool,
    /// Whether a call of the device waits for [`Core::awaited`].
    is_waiting: bool,
    /// The last field: the core's lock is released first.
    _turn: MutexGuard<'a, ()>,
}

impl<C: Core> Deref for Growth<'_, C> {
    type Target = C;

    fn deref(&self) -> &C {
        self.core.as_deref().expect("the core is locked except during a call of the device")
    }
}

impl<C: Core> DerefMut for Growth<'_, C> {
    fn deref_mut(&mut self) -> &mut C {
        self.core.as_deref_mut().expect("the core is locked except during a call of the device")
    }
}

impl<C: Core> Drop for Growth<'_, C> {
    fn drop(&mut self) {
        // The device panicked while this thread waited for a mark.
        if self.is_waiting {
            *lock(self.mutex).awaited() = None;
        }
    }
}

impl<'a, C: Core> Growth<'a, C> {
    /// Passes the turn on and returns the core, still locked.
    pub fn into_core(mut self) -> MutexGuard<'a, C> {
        self.core.take().unwrap_or_else(|| lock(self.mutex))
    }

    /// Releases the core's lock for a call of the device.
    pub fn unlocked<T>(&mut self, call: impl FnOnce() -> T) -> T {
        let before = self.version();
        self.core = None;
        let answer = call();
        self.core = Some(lock(self.mutex));
        self.is_stale |= before != self.version();
        answer
    }

    /// Waits in a call of the device until a stream has passed a mark. Other threads do not forget the mark meanwhile.
    pub fn wait<T>(&mut self, mark: C::Mark, call: impl FnOnce() -> T) -> T {
        *self.awaited() = Some(mark);
        self.is_waiting = true;
        let answer = self.unlocked(call);
        *self.awaited() = None;
        self.is_waiting = false;
        answer
    }

    /// Returns whether another thread may have changed the core since the last call.
    pub fn take_stale(&mut self) -> bool {
        std::mem::take(&mut self.is_stale)
    }
}
