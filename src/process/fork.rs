//! Makes forks safe: the child finds every lock free and no work half done.
//!
//! A child of `fork` has one thread, the copy of the one that forked. A lock that another thread had at that moment
//! would stay locked for ever, and what that thread was changing would stay half changed. So the forking thread
//! takes every lock of memreel before the fork, in the order in which all threads take them, and releases them after
//! it in the parent and in the child (`pthread_atfork`).
//!
//! A part of memreel that has a lock registers itself when it is created; [`Part::hold`] takes its locks. A part may
//! also act in the child, where it has its locks and no other thread exists: a tape takes the chunks of the threads
//! that are gone, and a file that only the parent may write is closed. Events and allocations pay nothing for this.
//!
//! From the first step of a fork to the last, the forking thread does the recorder's own work, receives no signal, and
//! allocates nothing in the parent.
//!
//! No lock is waited for longer than two seconds: a function that is called under one of the locks may fork, and so may
//! a signal handler within the recorder's own work, which is not waited for at all. If a lock could not be taken, the
//! child's state is not consistent, and the child records nothing (`wiped.rs`).

use std::sync::{
    Arc, Mutex, MutexGuard,
    atomic::{AtomicU32, Ordering},
};

use memreel_lockfree::{
    forks::{self, Forks},
    sync::Waits,
};

use super::pause;

pub(crate) use super::forking::Forking;
#[doc(inline)]
pub use memreel_lockfree::forks::AllocatorHandlers;
pub(crate) use memreel_lockfree::forks::{Level, Part};

/// The locks that a fork of this process holds.
pub(crate) type Held = forks::Held<Forking>;

/// The state of a fork's thread between the two handlers.
type Fork = forks::Fork<Forking>;

static FORKS: Forks<Forking> = Forks::new();

impl<T: Send + 'static> Part<Forking> for Mutex<T> {
    fn hold(self: Arc<Self>, held: &mut Held) {
        held.lock(&self, |mutex| mutex, |_, _| {}, |_, _| {});
    }
}

/// Counts the forks between the first process and this one. Relaxed: it changes while a child has one thread.
static GENERATION: AtomicU32 = AtomicU32::new(0);

/// Returns how many forks are between the first process and this one. Things that a child of the process that created
/// them cannot use, such as a GPU or a thread, remember this number.
pub(crate) fn generation() -> u32 {
    GENERATION.load(Ordering::Relaxed)
}

/// Registers a part until it is dropped.
pub(crate) fn register<T: Part<Forking> + 'static>(level: Level, part: &Arc<T>) {
    install();
    FORKS.register(level, part);
}

/// Registers locks that are statics; further calls with the same function change nothing.
pub(crate) fn register_static(level: Level, hold: fn(&mut Held)) {
    install();
    FORKS.register_static(level, hold);
}

/// Registers a function that is called in a child, where it may do little.
pub(crate) fn register_call(work: fn()) {
    install();
    FORKS.register_call(work);
}

/// Registers the fork handlers of an allocator under `malloc` to run inside memreel's, which allocates from it under
/// its locks.
///
/// ```
/// use memreel::integrate::{AllocatorHandlers, register_allocator};
///
/// extern "C" fn nothing() {}
/// register_allocator(AllocatorHandlers { prepare: Some(nothing), parent: Some(nothing), child: None });
/// ```
pub fn register_allocator(handlers: AllocatorHandlers) {
    install();
    FORKS.register_allocator(handlers);
}

/// The number of the fork that holds the locks now, and of the last one that a thread waited for too long; 0 if there
/// is none. Relaxed: they only end waits.
static HOLDING: AtomicU32 = AtomicU32::new(0);
static STUCK: AtomicU32 = AtomicU32::new(0);

/// How often a thread waits for a fork ([`pause::again`]): about two seconds, because the fork of a large process takes
/// some tenths of a second; and 10 ms once a fork was stuck.
const MOST_WAITS: u32 = 850;
const FEWER_WAITS: u32 = 224;

/// Returns whether the `n`th wait for a lock is one too many: a fork has the lock, and another library's next fork
/// handlers may wait for this thread. No thread waits for such a fork again.
pub(crate) fn is_stuck(n: u32) -> bool {
    let (holding, stuck) = (HOLDING.load(Ordering::Relaxed), STUCK.load(Ordering::Relaxed));
    let is_stuck = match (holding, stuck) {
        (0, _) => false,
        (_, 0) => n >= MOST_WAITS,
        _ => holding == stuck || n >= FEWER_WAITS,
    };
    if is_stuck {
        STUCK.store(holding, Ordering::Relaxed);
    }
    is_stuck
}

/// Waits for the lock of a shard, unless a fork that is stuck has it.
#[derive(Debug)]
pub(crate) struct UnlessStuck;

impl Waits for UnlessStuck {
    fn again(n: u32) -> bool {
        let waits = !is_stuck(n);
        if waits {
            pause::again(n);
        }
        waits
    }
}

/// Records that a fork of this process holds the locks.
fn begin_holding() {
    // Relaxed: one thread after the other holds them.
    static NUMBER: AtomicU32 = AtomicU32::new(1);
    HOLDING.store(NUMBER.fetch_add(1, Ordering::Relaxed).max(1), Ordering::Relaxed);
}

/// Takes a lock; `None` if a fork has it for too long ([`is_stuck`]).
pub(crate) fn lock_unless_stuck<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    for n in 0.. {
        match mutex.try_lock() {
            Ok(guard) => return Some(guard),
            Err(std::sync::TryLockError::Poisoned(poisoned)) => return Some(poisoned.into_inner()),
            Err(std::sync::TryLockError::WouldBlock) if UnlessStuck::again(n) => {}
            Err(std::sync::TryLockError::WouldBlock) => break,
        }
    }
    None
}

#[cfg(not(all(target_os = "linux", not(miri))))]
pub(crate) fn install() {}

#[cfg(all(target_os = "linux", not(miri)))]
pub(crate) use handlers::install;

#[cfg(all(target_os = "linux", not(miri)))]
mod handlers {
    use std::{
        cell::RefCell,
        mem::ManuallyDrop,
        sync::{Once, atomic::Ordering},
    };

    use super::{
        super::{guard::Guard, own_pages, wiped},
        FORKS, Fork, GENERATION, HOLDING, begin_holding,
    };

    type Place = RefCell<ManuallyDrop<Option<Fork>>>;

    thread_local! {
        /// The state of this thread's fork. It has no destructor, because the C library allocates for one, in the
        /// program's name.
        static HELD: Place = const { RefCell::new(ManuallyDrop::new(None)) };
    }

    const _: () = assert!(!std::mem::needs_drop::<Place>());

    /// Registers the handlers, once per process. They are registered when it returns.
    pub(crate) fn install() {
        static ONCE: Once = Once::new();
        ONCE.call_once(|| {
            // The C library may allocate, and a report of that may register a part.
            let _own = Guard::enter();
            // SAFETY: the three functions take no argument and do not unwind. If the system has no memory for them, the
            // process forks without them.
            let refused = unsafe { libc::pthread_atfork(Some(prepare), Some(in_parent), Some(in_child)) };
            if refused == 0 {
                wiped::install();
            }
        });
    }

    /// Calls `work` with the state of this thread's fork.
    fn with_held<T>(work: impl FnOnce(&mut Option<Fork>) -> T) -> Option<T> {
        HELD.try_with(|place| place.try_borrow_mut().ok().map(|mut held| work(&mut held))).ok().flatten()
    }

    /// Takes every lock, before the fork.
    pub(super) extern "C" fn prepare() {
        // Its first use takes a lock of the loader, so it comes before any lock of memreel. Without storage, nothing
        // would release the locks.
        with_held(|held| match held {
            // A handler of another library, called after this one, forks itself.
            Some(held) => held.n_within += 1,
            None => {
                *held = FORKS.hold();
                held.iter().for_each(|_| begin_holding());
            }
        });
    }

    pub(super) extern "C" fn in_parent() {
        end(|held| held.in_parent());
    }

    extern "C" fn in_child() {
        own_pages::in_child();
        GENERATION.fetch_add(1, Ordering::Relaxed);
        let is_sound = with_held(|held| held.as_ref().is_some_and(Fork::is_whole)).unwrap_or(false);
        if is_sound {
            wiped::mark()
        } else {
            wiped::unmark()
        }
        end(|held| held.in_child());
    }

    /// Ends a fork of this thread. A fork within another leaves the outer one's state.
    fn end(work: impl FnOnce(&mut Fork)) {
        let ended = with_held(|place| {
            let held = place.as_mut()?;
            work(held);
            match held.n_within.checked_sub(1) {
                Some(n_within) => held.n_within = n_within,
                None => {
                    HOLDING.store(0, Ordering::Relaxed);
                    return place.take();
                }
            }
            None
        });
        // Separate, so that an owner that is dropped with it may fork.
        drop(ended);
    }
}

#[cfg(all(test, target_os = "linux", not(miri)))]
mod tests {
    use std::{
        cell::Cell,
        sync::{
            LazyLock,
            atomic::{AtomicBool, AtomicUsize},
        },
        thread,
        time::Duration,
    };

    use memreel_lockfree::heap::SpinLock;

    use super::{
        handlers::{in_parent, prepare},
        *,
    };
    use crate::process::guard::Guard;

    #[test]
    fn forks_of_several_threads_come_one_after_the_other() {
        static IS_FORKING: AtomicBool = AtomicBool::new(false);
        static N_OVERLAPS: AtomicUsize = AtomicUsize::new(0);
        // What is held last is released first, and here only after another thread had time to start.
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

    #[test]
    fn a_part_that_many_threads_register_is_held_once() {
        // Another test forks too.
        thread_local! {
            static N_HELD: Cell<u32> = const { Cell::new(0) };
        }
        thread::scope(|scope| {
            for _ in 0..8 {
                let hold = |_: &mut Held| N_HELD.set(N_HELD.get() + 1);
                scope.spawn(move || register_static(Level::Device, hold));
            }
        });
        prepare();
        assert!(Guard::is_held(), "what it does is the recorder's own work");
        // A fork within another.
        prepare();
        in_parent();
        assert!(Guard::is_held(), "the outer fork goes on");
        in_parent();
        assert_eq!((N_HELD.get(), Guard::is_held()), (1, false));
    }

    /// If a cancelled thread ended inside a wait, it would unwind through the program's `malloc`.
    #[test]
    fn a_cancelled_thread_waits_on() {
        static LOCK: LazyLock<SpinLock<u64>> = LazyLock::new(SpinLock::default);
        extern "C" fn waits(_: *mut libc::c_void) -> *mut libc::c_void {
            *LOCK.lock::<UnlessStuck>(|| false).unwrap() += 1;
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
}
