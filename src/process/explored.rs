//! Models of what a fork holds, for `dev/loom`, in which the forking thread is another thread of the process.
#![forbid(unsafe_code)]

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use super::{
    held::{self, Held, Level, Part},
    sync::{Mutex, NotAtomic, lock},
};

/// The parts of a process. They are never dropped.
#[derive(Clone, Copy)]
pub struct Forks(&'static held::Forks);

impl std::fmt::Debug for Forks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Forks").finish_non_exhaustive()
    }
}

impl Default for Forks {
    fn default() -> Forks {
        Forks(Box::leak(Box::new(held::Forks::new())))
    }
}

/// A part with a lock. What the lock protects is marked, even where the fork reads it without the lock.
#[derive(Debug, Default)]
pub struct ForkedPart {
    lock: Mutex<()>,
    mark: NotAtomic,
    /// Odd while the value is half changed. Relaxed: loom orders it by the mark.
    value: AtomicUsize,
}

impl ForkedPart {
    /// Changes the value in two steps.
    pub fn change(&self) {
        let _guard = lock(&self.lock);
        self.mark.write();
        (0..2).for_each(|_| _ = self.value.fetch_add(1, Ordering::Relaxed));
    }

    /// Returns the value, which is never half changed. The caller has no lock, because it forks.
    #[must_use]
    pub fn at_fork(&self) -> usize {
        self.mark.read();
        self.value.load(Ordering::Relaxed)
    }
}

impl Part for ForkedPart {
    fn hold(self: Arc<Self>, held: &mut Held) {
        let begin_again = |part: &ForkedPart, (): &mut ()| {
            part.mark.write();
            part.value.store(0, Ordering::Relaxed);
        };
        held.lock(&self, |part| &part.lock, |(), _| {}, begin_again);
    }
}

/// How often a part was held that several threads register as the same one.
static N_HELD: AtomicUsize = AtomicUsize::new(0);

impl Forks {
    /// Registers a part.
    pub fn register(&self, part: &Arc<ForkedPart>) {
        self.0.register(Level::Recorder, part);
    }

    /// Registers the one part that is static.
    pub fn register_static(&self) {
        self.0.register_static(Level::Loader, |_| _ = N_HELD.fetch_add(1, Ordering::Relaxed));
    }

    /// Returns how often the static part was held since the last call.
    #[must_use]
    pub fn n_held(&self) -> usize {
        N_HELD.swap(0, Ordering::Relaxed)
    }

    /// Simulates a fork: `meanwhile` runs while everything is held. Afterwards this is the child if `is_child`. Returns
    /// whether everything was held.
    #[must_use]
    pub fn fork(&self, is_child: bool, meanwhile: impl FnOnce()) -> bool {
        let Some(mut held) = self.0.hold() else { return false };
        meanwhile();
        if is_child {
            held.in_child()
        } else {
            held.in_parent()
        }
        held.is_whole()
    }
}
