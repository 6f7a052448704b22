//! Holds the registered locks during a fork, in the order in which all threads take them.

use std::sync::{Arc, TryLockError, Weak};
#[cfg(not(loom))]
use std::time::{Duration, Instant};

use super::{
    guard::Guard,
    mask::Blocked,
    pause,
    steps::{Step, Steps},
    sync::{Mutex, MutexGuard, lock},
};

/// How long a fork waits for all locks together.
#[cfg(not(loom))]
const PATIENCE: Duration = Duration::from_secs(2);

/// The order in which parts are held: a thread with a lock of one level only takes others of later levels.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Level {
    /// Calls of the dynamic loader, which may wait for any thread; so no lock is held yet.
    Loader,
    /// Locks under which events are recorded.
    Allocator,
    Device,
    Recorder,
    /// The list of modules, under which no other lock is taken.
    Modules,
}

/// Something whose locks no other thread may have during a fork.
pub(crate) trait Part: Send + Sync {
    /// Takes the locks with [`Held::lock`].
    fn hold(self: Arc<Self>, held: &mut Held);
}

enum Registered {
    Shared(Weak<dyn Part>),
    Static(fn(&mut Held)),
    Call(fn()),
}

impl Registered {
    fn is_alive(&self) -> bool {
        match self {
            Registered::Shared(part) => part.strong_count() > 0,
            Registered::Static(_) | Registered::Call(_) => true,
        }
    }

    fn hold(&self, held: &mut Held) {
        match self {
            Registered::Shared(part) => {
                if let Some(part) = part.upgrade() {
                    part.hold(held);
                }
            }
            Registered::Static(hold) => hold(held),
            Registered::Call(work) => held.call(*work, || {}),
        }
    }
}

/// The handlers of an allocator, as `pthread_atfork` takes them.
#[derive(Clone, Copy, Debug)]
pub struct AllocatorHandlers {
    /// Called before the fork.
    pub prepare: Option<extern "C" fn()>,
    /// Called in the parent after the fork.
    pub parent: Option<extern "C" fn()>,
    /// Called in the child after the fork.
    pub child: Option<extern "C" fn()>,
}

struct Parts {
    /// Sorted by level.
    all: Vec<(Level, Registered)>,
    allocators: Vec<AllocatorHandlers>,
    /// Memory that is reused from the last fork.
    spare: Steps,
}

impl Parts {
    const NONE: Parts = Parts { all: Vec::new(), allocators: Vec::new(), spare: Steps::new() };
}

/// All parts that a fork holds.
pub(crate) struct Forks(Mutex<Parts>);

impl Forks {
    #[cfg(not(loom))]
    pub(super) const fn new() -> Forks {
        Forks(Mutex::new(Parts::NONE))
    }

    #[cfg(loom)]
    pub(super) fn new() -> Forks {
        Forks(Mutex::new(Parts::NONE))
    }

    /// Registers a part until it is dropped.
    pub(super) fn register<T: Part + 'static>(&self, level: Level, part: &Arc<T>) {
        let part: Weak<T> = Arc::downgrade(part);
        self.add(level, Registered::Shared(part));
    }

    /// Registers locks that are statics; further calls with the same function change nothing.
    pub(super) fn register_static(&self, level: Level, hold: fn(&mut Held)) {
        self.add(level, Registered::Static(hold));
    }

    /// Registers a function that is called in a child.
    pub(super) fn register_call(&self, work: fn()) {
        self.add(Level::Loader, Registered::Call(work));
    }

    /// Checks and adds in one step: if two threads register the same function, it is added once.
    fn add(&self, level: Level, part: Registered) {
        // The list's allocations are the recorder's own. A report of them may re-enter this function.
        let _own = Guard::enter();
        let mut parts = lock(&self.0);
        if let Registered::Static(hold) = part {
            let is_same = |part: &Registered| matches!(part, Registered::Static(other) if *other as usize == hold as usize);
            if parts.all.iter().any(|(_, part)| is_same(part)) {
                return;
            }
        }
        // Parts that were dropped are removed when the list would have to grow.
        if parts.all.len() == parts.all.capacity() {
            parts.all.retain(|(_, part)| part.is_alive());
        }
        let place = parts.all.partition_point(|(other, _)| *other <= level);
        parts.all.insert(place, (level, part));
    }

    /// Registers the handlers of an allocator.
    pub(super) fn register_allocator(&self, handlers: AllocatorHandlers) {
        let _own = Guard::enter();
        lock(&self.0).allocators.push(handlers);
    }

    /// Takes every lock, before the fork. `None` if this thread is within the recorder's own work, because it may have
    /// locks itself.
    pub(super) fn hold(&'static self) -> Option<Held> {
        let mut held = Held {
            #[cfg(not(loom))]
            until: Instant::now() + PATIENCE,
            is_whole: true,
            n_within: 0,
            steps: Steps::new(),
            forks: self,
            parts: None,
            // The first to be taken, and the last to end: what this thread allocates from here on is the recorder's
            // own.
            _own: Guard::enter()?,
            // A signal handler would run under all locks, and could fork.
            _signals: Blocked::new(),
        };
        let mut parts = held.try_lock(&self.0)?;
        std::mem::swap(&mut held.steps, &mut parts.spare);
        parts.all.iter().for_each(|(_, part)| part.hold(&mut held));
        parts.allocators.iter().rev().filter_map(|handlers| handlers.prepare).for_each(|prepare| prepare());
        held.parts = Some(parts);
        Some(held)
    }
}

/// The state of the forking thread between the two handlers.
pub(crate) struct Held {
    #[cfg(not(loom))]
    until: Instant,
    /// Whether everything was taken.
    is_whole: bool,
    /// How many forks by other libraries' handlers on this thread are within this one.
    pub(super) n_within: u32,
    steps: Steps,
    forks: &'static Forks,
    /// Released last, so that another thread's fork starts after this one has undone everything.
    parts: Option<MutexGuard<'static, Parts>>,
    _own: Guard,
    _signals: Blocked,
}

#[cfg(not(loom))]
impl<T: Send + 'static> Part for Mutex<T> {
    fn hold(self: Arc<Self>, held: &mut Held) {
        held.lock(&self, |mutex| mutex, |_, _| {}, |_, _| {});
    }
}

struct HeldLock<O: 'static, T: 'static> {
    /// Before `owner`, because fields are dropped in this order.
    guard: Option<MutexGuard<'static, T>>,
    owner: Arc<O>,
    in_child: fn(&O, &mut T),
}

impl<O, T> Step for HeldLock<O, T> {
    fn in_child(&mut self) {
        if let Some(guard) = &mut self.guard {
            (self.in_child)(&self.owner, guard);
        }
    }

    fn release(&mut self) {
        self.guard = None;
    }
}

impl<T> Step for Option<MutexGuard<'static, T>> {
    fn release(&mut self) {
        *self = None;
    }
}

/// Functions to call after the fork.
struct Calls {
    in_child: fn(),
    at_end: fn(),
}

impl Step for Calls {
    fn in_child(&mut self) {
        (self.in_child)();
    }

    fn release(&mut self) {
        (self.at_end)();
    }
}

impl Held {
    /// Holds a lock of a shared value. `look` reads what the lock protects before the fork, and `in_child` changes it
    /// in the child.
    pub(crate) fn lock<O: 'static, T: 'static>(
        &mut self,
        owner: &Arc<O>,
        lock_of: impl for<'a> FnOnce(&'a O) -> &'a Mutex<T>,
        look: impl FnOnce(&T, &mut Held),
        in_child: fn(&O, &mut T),
    ) {
        let owner = owner.clone();
        // SAFETY: the lock is borrowed from the value behind `owner`, which stays where it is as long as `owner` is
        // kept; `HeldLock` drops the guard before `owner`.
        let mutex: &'static Mutex<T> = unsafe { &*std::ptr::from_ref(lock_of(&owner)) };
        if let Some(guard) = self.try_lock(mutex) {
            let value = std::ptr::from_ref::<T>(&guard);
            let is_held = self.steps.push(HeldLock { guard: Some(guard), owner, in_child });
            self.is_whole &= is_held;
            if is_held {
                // SAFETY: the lock is held until the steps are undone, and `look` undoes none; only `in_child` changes the value.
                look(unsafe { &*value }, self);
            }
        }
    }

    /// Holds a lock that is a static.
    pub(crate) fn lock_static<T: 'static>(&mut self, mutex: &'static Mutex<T>) {
        if let Some(guard) = self.try_lock(mutex) {
            self.is_whole &= self.steps.push(Some(guard));
        }
    }

    /// Calls `in_child` in the child, and `at_end` in both processes.
    pub(crate) fn call(&mut self, in_child: fn(), at_end: fn()) {
        self.is_whole &= self.steps.push(Calls { in_child, at_end });
    }

    /// Waits until `is_so` returns true, or until the fork's time is over; returns which.
    pub(crate) fn wait(&mut self, mut is_so: impl FnMut() -> bool) -> bool {
        for n in 0.. {
            if is_so() {
                return true;
            }
            #[cfg(not(loom))]
            if n >= 100 && Instant::now() >= self.until {
                break;
            }
            pause::again(n);
        }
        self.is_whole = false;
        false
    }

    fn try_lock<T>(&mut self, mutex: &'static Mutex<T>) -> Option<MutexGuard<'static, T>> {
        let mut guard = None;
        self.wait(|| {
            guard = match mutex.try_lock() {
                Ok(guard) => Some(guard),
                Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
                Err(TryLockError::WouldBlock) => None,
            };
            guard.is_some()
        });
        guard
    }

    /// Returns whether every lock was taken.
    pub(super) fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// Prepares the parent: what is dropped next releases everything.
    pub(super) fn in_parent(&mut self) {
        self.each_allocator(|handlers| handlers.parent);
    }

    /// Does the work of each part in the child.
    pub(super) fn in_child(&mut self) {
        self.each_allocator(|handlers| handlers.child);
        self.steps.in_child();
    }

    fn each_allocator(&self, of: impl Fn(&AllocatorHandlers) -> Option<extern "C" fn()>) {
        let allocators = self.parts.iter().flat_map(|parts| &parts.allocators);
        allocators.filter_map(of).for_each(|handler| handler());
    }
}

impl Drop for Held {
    /// Releases everything, last first. No owner is dropped before all locks are free, because it may be the last owner
    /// of its value, whose drop takes locks.
    fn drop(&mut self) {
        self.steps.release();
        self.parts = None;
        self.steps.clear();
        if let Ok(mut parts) = self.forks.0.try_lock() {
            std::mem::swap(&mut parts.spare, &mut self.steps);
        }
    }
}
