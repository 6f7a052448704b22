//! Holds the registered locks during a fork, in the order in which all threads take them.

use std::{
    fmt,
    sync::{Arc, TryLockError, Weak},
};

use super::{
    process::Process,
    steps::{Step, Steps},
};
use crate::sync::{Mutex, MutexGuard, lock};

/// The order in which parts are held: a thread with a lock of one level only takes others of later levels.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Level {
    /// Calls of the dynamic loader, which may wait for any thread; so no lock is held yet.
    Loader,
    /// Locks under which events are recorded.
    Allocator,
    /// Locks of devices.
    Device,
    /// Locks of recorders.
    Recorder,
    /// The list of modules, under which no other lock is taken.
    Modules,
}

/// Something whose locks no other thread may have during a fork.
pub trait Part<P: Process>: Send + Sync {
    /// Takes the locks with [`Held::lock`].
    fn hold(self: Arc<Self>, held: &mut Held<P>);
}

enum Registered<P: Process> {
    Shared(Weak<dyn Part<P>>),
    Static(fn(&mut Held<P>)),
    Call(fn()),
}

impl<P: Process> Registered<P> {
    fn is_alive(&self) -> bool {
        match self {
            Registered::Shared(part) => part.strong_count() > 0,
            Registered::Static(_) | Registered::Call(_) => true,
        }
    }

    fn hold(&self, held: &mut Held<P>) {
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

struct Parts<P: Process> {
    /// Sorted by level.
    all: Vec<(Level, Registered<P>)>,
    allocators: Vec<AllocatorHandlers>,
    /// Memory that is reused from the last fork.
    spare: Steps<P>,
}

impl<P: Process> Parts<P> {
    const NONE: Parts<P> = Parts { all: Vec::new(), allocators: Vec::new(), spare: Steps::new() };
}

/// All parts that a fork holds.
pub struct Forks<P: Process>(Mutex<Parts<P>>);

impl<P: Process> fmt::Debug for Forks<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Forks").finish_non_exhaustive()
    }
}

#[allow(clippy::new_without_default, reason = "a static needs a constant")]
impl<P: Process> Forks<P> {
    /// Returns an empty list.
    #[cfg(not(memreel_loom))]
    pub const fn new() -> Forks<P> {
        Forks(Mutex::new(Parts::NONE))
    }

    /// Returns an empty list. loom's locks cannot be made by the compiler.
    #[cfg(memreel_loom)]
    pub fn new() -> Forks<P> {
        Forks(Mutex::new(Parts::NONE))
    }

    /// Registers a part until it is dropped.
    pub fn register<T: Part<P> + 'static>(&self, level: Level, part: &Arc<T>) {
        let part: Weak<T> = Arc::downgrade(part);
        self.add(level, Registered::Shared(part));
    }

    /// Registers locks that are statics; further calls with the same function change nothing.
    pub fn register_static(&self, level: Level, hold: fn(&mut Held<P>)) {
        self.add(level, Registered::Static(hold));
    }

    /// Registers a function that is called in a child.
    pub fn register_call(&self, work: fn()) {
        self.add(Level::Loader, Registered::Call(work));
    }

    /// Checks and adds in one step: if two threads register the same function, it is added once.
    fn add(&self, level: Level, part: Registered<P>) {
        // The list's allocations are the recorder's own. A report of them may re-enter this function.
        let _own = P::own_work();
        let mut parts = lock(&self.0);
        if let Registered::Static(hold) = part {
            let is_same = |part: &Registered<P>| matches!(part, Registered::Static(other) if *other as usize == hold as usize);
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
    pub fn register_allocator(&self, handlers: AllocatorHandlers) {
        let _own = P::own_work();
        lock(&self.0).allocators.push(handlers);
    }

    /// Takes every lock, before the fork. `None` if the process does not begin one ([`Process::begin`]).
    pub fn hold(&'static self) -> Option<Fork<P>> {
        let held = Held { is_whole: true, steps: Steps::new(), process: P::begin()? };
        let mut fork = Fork { held, n_within: 0, forks: self, parts: None };
        let mut parts = fork.held.try_lock(&self.0)?;
        std::mem::swap(&mut fork.held.steps, &mut parts.spare);
        parts.all.iter().for_each(|(_, part)| part.hold(&mut fork.held));
        parts.allocators.iter().rev().filter_map(|handlers| handlers.prepare).for_each(|prepare| prepare());
        fork.parts = Some(parts);
        Some(fork)
    }
}

/// The state of the forking thread between the two handlers. Dropping it releases everything.
pub struct Fork<P: Process> {
    held: Held<P>,
    /// How many forks by other libraries' handlers on this thread are within this one.
    pub n_within: u32,
    forks: &'static Forks<P>,
    /// Released last, so that another thread's fork starts after this one has undone everything.
    parts: Option<MutexGuard<'static, Parts<P>>>,
}

impl<P: Process> fmt::Debug for Fork<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fork").field("is_whole", &self.held.is_whole).finish_non_exhaustive()
    }
}

/// What a fork has taken so far, as parts see it: they add to it, and undo nothing.
pub struct Held<P: Process> {
    /// Whether everything was taken.
    is_whole: bool,
    steps: Steps<P>,
    process: P,
}

impl<P: Process> fmt::Debug for Held<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Held").field("is_whole", &self.is_whole).finish_non_exhaustive()
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

impl<P: Process> Held<P> {
    /// Holds a lock of a shared value. `look` reads what the lock protects before the fork, and `in_child` changes it
    /// in the child.
    pub fn lock<O: 'static, T: 'static>(
        &mut self,
        owner: &Arc<O>,
        lock_of: impl for<'a> FnOnce(&'a O) -> &'a Mutex<T>,
        look: impl FnOnce(&T, &mut Held<P>),
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
                // SAFETY: the lock is held until the steps are undone, which only the owner of the `Fork` does, who is not
                // reachable from here; only `in_child` changes the value.
                look(unsafe { &*value }, self);
            }
        }
    }

    /// Holds a lock that is a static.
    pub fn lock_static<T: 'static>(&mut self, mutex: &'static Mutex<T>) {
        if let Some(guard) = self.try_lock(mutex) {
            self.is_whole &= self.steps.push(Some(guard));
        }
    }

    /// Calls `in_child` in the child, and `at_end` in both processes.
    pub fn call(&mut self, in_child: fn(), at_end: fn()) {
        self.is_whole &= self.steps.push(Calls { in_child, at_end });
    }

    /// Waits until `is_so` returns true, or until the fork's time is over; returns which.
    pub fn wait(&mut self, mut is_so: impl FnMut() -> bool) -> bool {
        for n in 0.. {
            if is_so() {
                return true;
            }
            if !self.process.again(n) {
                break;
            }
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
}

impl<P: Process> Fork<P> {
    /// Returns whether every lock was taken.
    pub fn is_whole(&self) -> bool {
        self.held.is_whole
    }

    /// Prepares the parent: what is dropped next releases everything.
    pub fn in_parent(&mut self) {
        self.each_allocator(|handlers| handlers.parent);
    }

    /// Does the work of each part in the child.
    pub fn in_child(&mut self) {
        self.each_allocator(|handlers| handlers.child);
        self.held.steps.in_child();
    }

    fn each_allocator(&self, of: impl Fn(&AllocatorHandlers) -> Option<extern "C" fn()>) {
        let allocators = self.parts.iter().flat_map(|parts| &parts.allocators);
        allocators.filter_map(of).for_each(|handler| handler());
    }
}

impl<P: Process> Drop for Fork<P> {
    /// Releases everything, last first. No owner is dropped before all locks are free, because it may be the last owner
    /// of its value, whose drop takes locks.
    fn drop(&mut self) {
        self.held.steps.release();
        self.parts = None;
        self.held.steps.clear();
        if let Ok(mut parts) = self.forks.0.try_lock() {
            std::mem::swap(&mut parts.spare, &mut self.held.steps);
        }
    }
}
