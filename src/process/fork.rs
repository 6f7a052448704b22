//! Forks of the process: the child finds every lock free and no work half done.
//!
//! A child of `fork` has one thread, the copy of the one that forked. A lock that another thread had at that moment
//! would stay locked for ever, and what that thread was changing would stay half changed. So the forking thread
//! takes every lock of memreel before the fork, in the order in which all threads take them, and releases them after
//! it in the parent and in the child (`pthread_atfork`).
//!
//! A part of memreel that has a lock registers itself when it is created; [`Part::hold`] takes its locks. A part may
//! also act in the child, where it has its locks and no other thread exists: a tape takes the chunks of the threads
//! that are gone, and a file that only the parent may write would be closed there. Nothing of this is on the way of
//! an event or of an allocation.
//!
//! No lock is waited for longer than [`PATIENCE`]: a signal handler, or a function that is called under one of the
//! locks, may fork while its own thread has it. Such a child can run another program (`exec`), but may wait for ever
//! in memreel.

use std::{
    cell::Cell,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, TryLockError, Weak,
        atomic::{AtomicU32, Ordering},
    },
    thread::{self, LocalKey},
    time::{Duration, Instant},
};
#[cfg(all(target_os = "linux", not(miri)))]
use std::{cell::RefCell, mem::ManuallyDrop};

use crate::process::{pause, sync::ReentryGuard};

/// How long a fork waits for all locks together.
const PATIENCE: Duration = Duration::from_secs(2);

/// The order in which parts are held: a thread that has a lock of one level takes others of later levels only.
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

/// Something with locks that no other thread may have at a fork.
pub(crate) trait Part: Send + Sync {
    /// Takes the locks with [`Held::lock`].
    fn hold(self: Arc<Self>, held: &mut Held);
}

enum Registered {
    Shared(Weak<dyn Part>),
    Static(fn(&mut Held)),
}

impl Registered {
    fn is_alive(&self) -> bool {
        match self {
            Registered::Shared(part) => part.strong_count() > 0,
            Registered::Static(_) => true,
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
        }
    }
}

/// All parts, by rising level.
static PARTS: Mutex<Vec<(Level, Registered)>> = Mutex::new(Vec::new());

/// Counts the forks between the first process and this one. Relaxed: it changes while a child has one thread.
static GENERATION: AtomicU32 = AtomicU32::new(0);

/// Returns how many forks are between the first process and this one. What cannot be used in a child of the
/// process that created it, such as a GPU or a thread, remembers it.
pub(crate) fn generation() -> u32 {
    GENERATION.load(Ordering::Relaxed)
}

/// Registers a part until it is dropped.
pub(crate) fn register<T: Part + 'static>(level: Level, part: &Arc<T>) {
    let part: Weak<T> = Arc::downgrade(part);
    add(level, Registered::Shared(part));
}

/// Registers locks that are statics; further calls with the same function change nothing.
pub(crate) fn register_static(level: Level, hold: fn(&mut Held)) {
    let is_same =
        |part: &Registered| matches!(part, Registered::Static(other) if *other as usize == hold as usize);
    if !parts().iter().any(|(_, part)| is_same(part)) {
        add(level, Registered::Static(hold));
    }
}

fn add(level: Level, part: Registered) {
    install();
    let mut parts = parts();
    // Parts that were dropped are removed where the list would have to grow.
    if parts.len() == parts.capacity() {
        parts.retain(|(_, part)| part.is_alive());
    }
    let place = parts.partition_point(|(other, _)| *other <= level);
    parts.insert(place, (level, part));
}

fn parts() -> MutexGuard<'static, Vec<(Level, Registered)>> {
    PARTS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What the forking thread has between the two handlers.
pub(crate) struct Held {
    until: Instant,
    steps: Vec<Box<dyn Step>>,
    /// The last field: the flag is set until the memory of the steps is freed.
    flag: Option<ReentryGuard>,
}

impl<T: Send + 'static> Part for Mutex<T> {
    fn hold(self: Arc<Self>, held: &mut Held) {
        held.lock(&self, |mutex| mutex, |_| {}, |_, _| {});
    }
}

/// A lock, or something else that is undone after the fork.
trait Step {
    /// Called in the child before anything is released.
    fn in_child(&mut self) {}
    fn release(&mut self) {}
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
    fn new() -> Held {
        Held { until: Instant::now() + PATIENCE, steps: Vec::new(), flag: None }
    }

    /// Holds a lock of a shared value. `look` sees what it protects before the fork, and `in_child` changes it in
    /// the child.
    pub(crate) fn lock<O: 'static, T: 'static>(
        &mut self,
        owner: &Arc<O>,
        lock_of: impl for<'a> FnOnce(&'a O) -> &'a Mutex<T>,
        look: impl FnOnce(&T),
        in_child: fn(&O, &mut T),
    ) {
        let owner = owner.clone();
        // SAFETY: the lock is borrowed from the value behind `owner`, which stays where it is as long as `owner` is
        // kept; `HeldLock` drops the guard before `owner`.
        let mutex: &'static Mutex<T> = unsafe { &*std::ptr::from_ref(lock_of(&owner)) };
        if let Some(guard) = self.try_lock(mutex) {
            look(&guard);
            self.steps.push(Box::new(HeldLock { guard: Some(guard), owner, in_child }));
        }
    }

    /// Holds a lock that is a static.
    pub(crate) fn lock_static<T: 'static>(&mut self, mutex: &'static Mutex<T>) {
        if let Some(guard) = self.try_lock(mutex) {
            self.steps.push(Box::new(Some(guard)));
        }
    }

    /// Sets a flag of the forking thread until all locks are released and nothing of the fork is left to free. One
    /// part may set one.
    pub(crate) fn set(&mut self, flag: &'static LocalKey<Cell<bool>>) {
        self.flag = ReentryGuard::enter(flag);
    }

    /// Calls `in_child` in the child, and `at_end` in both processes.
    pub(crate) fn call(&mut self, in_child: fn(), at_end: fn()) {
        self.steps.push(Box::new(Calls { in_child, at_end }));
    }

    /// Waits until `is_so` returns true, or until the patience of the fork ends; returns whether it did.
    pub(crate) fn wait(&self, mut is_so: impl FnMut() -> bool) -> bool {
        for n in 0_u32.. {
            if is_so() {
                return true;
            }
            match n {
                0..100 => std::hint::spin_loop(),
                _ if Instant::now() >= self.until => break,
                100..1000 => thread::yield_now(),
                _ => pause::sleep(Duration::from_micros(50)),
            }
        }
        false
    }

    fn try_lock<T>(&self, mutex: &'static Mutex<T>) -> Option<MutexGuard<'static, T>> {
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

impl Drop for Held {
    /// Releases everything, the last first, and drops no owner before all locks are free: an owner may be the last
    /// of its value, whose drop takes locks.
    fn drop(&mut self) {
        self.steps.iter_mut().rev().for_each(|step| step.release());
        while self.steps.pop().is_some() {}
    }
}

#[cfg(not(all(target_os = "linux", not(miri))))]
fn install() {}

#[cfg(all(target_os = "linux", not(miri)))]
thread_local! {
    /// What this thread has while it forks. It has no destructor: the C library allocates for one, in the program's name.
    static HELD: RefCell<ManuallyDrop<Option<Held>>> = const { RefCell::new(ManuallyDrop::new(None)) };
}

#[cfg(all(target_os = "linux", not(miri)))]
const _: () = assert!(!std::mem::needs_drop::<RefCell<ManuallyDrop<Option<Held>>>>());

/// Replaces what this thread has, and returns it.
#[cfg(all(target_os = "linux", not(miri)))]
fn exchange(held: Option<Held>) -> Option<Held> {
    let before = HELD.try_with(|place| place.replace(ManuallyDrop::new(held)));
    before.ok().and_then(ManuallyDrop::into_inner)
}

/// Registers the handlers, once a process.
#[cfg(all(target_os = "linux", not(miri)))]
fn install() {
    static IS_INSTALLED: std::sync::atomic::AtomicBool = std::sync::atomic::AtomicBool::new(false);
    // Relaxed: one thread registers them, and nothing is read because of it.
    if !IS_INSTALLED.swap(true, Ordering::Relaxed) {
        // SAFETY: the three functions take no argument and do not unwind. If the system has no memory for them, the
        // process forks without them.
        let refused = unsafe { libc::pthread_atfork(Some(prepare), Some(in_parent), Some(in_child)) };
        if refused == 0 {
            crate::process::wiped::install();
        }
    }
}

/// Takes every lock, before the fork.
#[cfg(all(target_os = "linux", not(miri)))]
extern "C" fn prepare() {
    // Its first use takes a lock of the loader, so it comes before any lock of memreel. Without storage nothing would
    // release the locks.
    if HELD.try_with(|_| ()).is_err() {
        return;
    }
    let mut held = Held::new();
    let Some(parts) = held.try_lock(&PARTS) else { return };
    parts.iter().for_each(|(_, part)| part.hold(&mut held));
    // Released last, so that another thread's fork begins when this one has undone everything.
    held.steps.insert(0, Box::new(Some(parts)));
    exchange(Some(held));
}

#[cfg(all(target_os = "linux", not(miri)))]
extern "C" fn in_parent() {
    drop(exchange(None));
}

#[cfg(all(target_os = "linux", not(miri)))]
extern "C" fn in_child() {
    crate::process::wiped::mark();
    GENERATION.fetch_add(1, Ordering::Relaxed);
    if let Some(mut held) = exchange(None) {
        held.steps.iter_mut().for_each(|step| step.in_child());
    }
}

#[cfg(all(test, target_os = "linux", not(miri)))]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicUsize};

    use super::*;

    #[test]
    fn forks_of_several_threads_come_one_after_the_other() {
        static IS_FORKING: AtomicBool = AtomicBool::new(false);
        static N_OVERLAPS: AtomicUsize = AtomicUsize::new(0);
        // What is held last is released first, here after another thread had the time to begin.
        register_static(Level::Modules, |held| held.call(|| {}, || thread::sleep(Duration::from_millis(1))));
        register_static(Level::Loader, |held| {
            let is_second = IS_FORKING.swap(true, Ordering::SeqCst);
            N_OVERLAPS.fetch_add(usize::from(is_second), Ordering::SeqCst);
            held.call(|| {}, || IS_FORKING.store(false, Ordering::SeqCst));
        });
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..20 {
                        prepare();
                        in_parent();
                    }
                });
            }
        });
        assert_eq!(N_OVERLAPS.load(Ordering::SeqCst), 0);
    }
}
