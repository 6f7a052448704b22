//! The context and the pools of a device, which do not end while a look queries the driver about them.
//!
//! A look holds no lock during its queries: a fork takes every lock, and the driver may take long to answer.
#![forbid(unsafe_code)]

use std::{
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use memreel::integrate::hold_at_forks;

use super::seen::Seen;

/// The existing parts of a device.
#[derive(Debug)]
pub(crate) struct Alive {
    all: Arc<Mutex<All>>,
    /// Notified when a look ends.
    looked: Condvar,
    /// Whether there is a context, without the lock.
    has_context: AtomicBool,
}

#[derive(Debug, Default)]
struct All {
    context: Option<usize>,
    pools: Vec<usize>,
    is_looked_at: bool,
    seen: Seen,
}

/// One look at a device. Until it is dropped, no other look starts, and neither the context nor a pool ends.
#[derive(Debug)]
pub(crate) struct Look<'a> {
    alive: &'a Alive,
    /// The context, if one is known.
    pub(crate) context: Option<usize>,
    /// What the previous look saw; what is written here is available to the next one.
    pub(crate) seen: Seen,
}

impl Alive {
    pub(crate) fn new() -> Alive {
        let alive =
            Alive { all: Arc::default(), looked: Condvar::new(), has_context: AtomicBool::new(false) };
        hold_at_forks(&alive.all);
        alive
    }

    fn all(&self) -> MutexGuard<'_, All> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until no look is in progress.
    fn alone(&self) -> MutexGuard<'_, All> {
        let looked = self.looked.wait_while(self.all(), |all| all.is_looked_at);
        looked.unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a look, after the one in progress.
    pub(crate) fn look(&self) -> Look<'_> {
        self.begin(self.alone())
    }

    /// Starts a look; `None` if another one is in progress for longer than `patience`.
    pub(crate) fn look_within(&self, patience: Duration) -> Option<Look<'_>> {
        let looked = self.looked.wait_timeout_while(self.all(), patience, |all| all.is_looked_at);
        let (all, _) = looked.unwrap_or_else(PoisonError::into_inner);
        (!all.is_looked_at).then(|| self.begin(all))
    }

    fn begin(&self, mut all: MutexGuard<'_, All>) -> Look<'_> {
        all.is_looked_at = true;
        Look { alive: self, context: all.context, seen: all.seen }
    }

    /// Forgets the look of a thread that does not exist in a child of `fork`.
    pub(crate) fn forget_look(&self) {
        self.all().is_looked_at = false;
    }

    pub(crate) fn context(&self) -> Option<usize> {
        self.all().context
    }

    /// Sets the context; `None` when it ends. Returns the previous one.
    pub(crate) fn set_context(&self, context: Option<usize>) -> Option<usize> {
        let mut all = self.alone();
        self.has_context.store(context.is_some(), Ordering::Release);
        std::mem::replace(&mut all.context, context)
    }

    /// Returns whether a context is known.
    pub(crate) fn has_context(&self) -> bool {
        self.has_context.load(Ordering::Acquire)
    }

    pub(crate) fn add_pool(&self, pool: usize) {
        let mut all = self.all();
        if !all.pools.contains(&pool) {
            all.pools.push(pool);
        }
    }

    /// Forgets a pool that ends.
    pub(crate) fn remove_pool(&self, pool: usize) {
        self.alone().pools.retain(|known| *known != pool);
    }

    /// Forgets all pools.
    pub(crate) fn clear_pools(&self) {
        self.alone().pools.clear();
    }
}

impl Look<'_> {
    /// Returns the pools, none of which ends during this look.
    pub(crate) fn pools(&self) -> Vec<usize> {
        self.alive.all().pools.clone()
    }
}

impl Drop for Look<'_> {
    fn drop(&mut self) {
        let mut all = self.alive.all();
        (all.is_looked_at, all.seen) = (false, self.seen);
        drop(all);
        self.alive.looked.notify_all();
    }
}
