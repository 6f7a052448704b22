//! Tracks the walks of this process's threads, which may be ended for ever: [`enter`] and [`close`].
//!
//! A thread that waits for nothing of the interpreter may walk while another thread ends the interpreter, which frees
//! the states and frames of all threads. So a thread first notes in its own slot that it walks, and then checks whether
//! walks are open. The thread that closes them first writes that they are closed, and then waits until no thread walks.
//! Each needs a barrier between its two steps. The barrier of a walk only orders the compiler; the thread that closes
//! makes the system put a barrier into every thread (`membarrier`). Where the system cannot, a walk has a processor
//! barrier.

use std::{
    cell::Cell,
    ptr,
    sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, Ordering, compiler_fence, fence},
    thread,
    time::{Duration, Instant},
};

use crate::process::until_end::{self, UntilEnd};

/// How long [`close`] waits. A walk takes microseconds; one whose thread was stopped in the middle may never end.
const PATIENCE: Duration = Duration::from_secs(1);

static STATE: AtomicU8 = AtomicU8::new(CLOSED);

const CLOSED: u8 = 0;
const OPEN: u8 = 1;
/// Open, where the system puts no barriers into other threads.
const OPEN_WITH_BARRIER: u8 = 2;

/// The slots of all threads that ever walked at the same time, in a list that only grows.
static PLACES: AtomicPtr<Place> = AtomicPtr::new(ptr::null_mut());

/// The slot in which one thread notes that it walks. The slot of a thread that has ended is reused.
struct Place {
    is_walking: AtomicBool,
    is_taken: AtomicBool,
    next: *const Place,
}

thread_local! {
    /// This thread's slot; null before its first walk. It has no destructor, so its use costs nothing.
    static PLACE: Cell<*const Place> = const { Cell::new(ptr::null()) };
}

thread_local! {
    /// Returns the slot at the thread's end.
    static OWNED: UntilEnd<Cell<Option<Owned>>> = const { UntilEnd::new(Cell::new(None)) };
}

struct Owned(&'static Place);

impl Drop for Owned {
    fn drop(&mut self) {
        PLACE.set(ptr::null());
        self.0.is_taken.store(false, Ordering::Release);
    }
}

/// A walk of this thread, until it is dropped.
pub(super) struct Walk {
    place: &'static Place,
    /// Set if this walk interrupted another one of its thread.
    was_walking: bool,
}

impl Drop for Walk {
    #[inline(always)]
    fn drop(&mut self) {
        self.place.is_walking.store(self.was_walking, Ordering::Release);
    }
}

/// Starts a walk, unless walks are closed.
#[inline(always)]
pub(super) fn enter() -> Option<Walk> {
    // Relaxed: it is loaded again after the barrier, and the slot is this thread's own.
    let state = STATE.load(Ordering::Relaxed);
    if state == CLOSED {
        return None;
    }
    // SAFETY: null, or a place of the list.
    let place = match unsafe { PLACE.get().as_ref() } {
        Some(place) => place,
        None => take_place()?,
    };
    let walk = Walk { place, was_walking: place.is_walking.load(Ordering::Relaxed) };
    place.is_walking.store(true, Ordering::Relaxed);
    if state == OPEN_WITH_BARRIER {
        fence(Ordering::SeqCst);
    } else {
        compiler_fence(Ordering::SeqCst);
    }
    (STATE.load(Ordering::Acquire) != CLOSED).then_some(walk)
}

/// Takes a slot for this thread; none while the thread ends.
#[cold]
#[inline(never)]
fn take_place() -> Option<&'static Place> {
    until_end::with(&OWNED, |_| ())?;
    // Relaxed: the exchange decides.
    let free = places().find(|place| {
        !place.is_taken.load(Ordering::Relaxed) && !place.is_taken.swap(true, Ordering::Acquire)
    });
    let place = free.unwrap_or_else(add_place);
    PLACE.set(place);
    until_end::with(&OWNED, |owned| owned.set(Some(Owned(place))))?;
    Some(place)
}

fn add_place() -> &'static Place {
    let new = Box::leak(Box::new(Place {
        is_walking: AtomicBool::new(false),
        is_taken: AtomicBool::new(true),
        next: ptr::null(),
    }));
    // Relaxed: only exchanges change the list, so a thread that acquires the newest slot sees the older ones too.
    let mut first = PLACES.load(Ordering::Relaxed);
    loop {
        new.next = first;
        match PLACES.compare_exchange_weak(first, new, Ordering::Release, Ordering::Relaxed) {
            // SAFETY: the place is leaked, and from here on it is shared.
            Ok(_) => return unsafe { &*ptr::from_ref(new) },
            Err(now) => first = now,
        }
    }
}

/// Returns the slots, newest first.
fn places() -> impl Iterator<Item = &'static Place> {
    let mut next = PLACES.load(Ordering::Acquire).cast_const();
    std::iter::from_fn(move || {
        // SAFETY: null, or a place that is never freed.
        let place = unsafe { next.as_ref() }?;
        next = place.next;
        Some(place)
    })
}

/// Opens walks.
pub(super) fn open() {
    crate::process::fork::register_static(crate::process::fork::Level::Modules, |held| {
        held.call(forget_others, || {});
    });
    STATE.store(state_when_open(), Ordering::SeqCst);
}

fn state_when_open() -> u8 {
    if membarrier(Membarrier::Register) { OPEN } else { OPEN_WITH_BARRIER }
}

/// Prevents new walks, and waits for those of other threads; returns whether all have ended.
pub(super) fn close() -> bool {
    if STATE.swap(CLOSED, Ordering::SeqCst) == OPEN {
        membarrier(Membarrier::All);
    }
    let until = Instant::now() + PATIENCE;
    let own = PLACE.get();
    for place in places().filter(|place| !ptr::eq(*place, own)) {
        while place.is_walking.load(Ordering::Acquire) {
            if Instant::now() >= until {
                return false;
            }
            thread::yield_now();
        }
    }
    true
}

/// In a child of `fork`, ends the walks of threads that do not exist there.
fn forget_others() {
    // Relaxed: a child has one thread.
    if STATE.load(Ordering::Relaxed) != CLOSED {
        STATE.store(state_when_open(), Ordering::Relaxed);
    }
    let own = PLACE.get();
    for place in places().filter(|place| !ptr::eq(*place, own)) {
        place.is_walking.store(false, Ordering::Relaxed);
        place.is_taken.store(false, Ordering::Relaxed);
    }
}

/// Asks the system for barriers in all threads of this process; returns whether it supports them.
#[cfg(all(target_os = "linux", not(miri)))]
fn membarrier(what: Membarrier) -> bool {
    use rustix::thread::{MembarrierCommand, membarrier};

    let command = match what {
        Membarrier::Register => MembarrierCommand::RegisterPrivateExpedited,
        Membarrier::All => MembarrierCommand::PrivateExpedited,
    };
    membarrier(command).is_ok()
}

#[cfg(not(all(target_os = "linux", not(miri))))]
fn membarrier(_: Membarrier) -> bool {
    false
}

enum Membarrier {
    /// This process may ask.
    Register,
    All,
}

#[cfg(all(test, target_os = "linux", not(miri)))]
mod tests {
    use std::sync::{Barrier, mpsc};

    use super::*;

    /// One test, because walks belong to the process.
    #[test]
    fn closing_waits_for_walks_and_lets_none_begin() {
        assert!(enter().is_none(), "closed at first");
        open();
        drop(enter().unwrap());
        assert!(close(), "a walk that has ended is not waited for");
        open();

        let (began, may_end) = (Barrier::new(2), AtomicBool::new(false));
        let (sender, closed) = mpsc::channel();
        thread::scope(|scope| {
            scope.spawn(|| {
                let walk = enter().unwrap();
                drop(enter().unwrap());
                began.wait();
                while !may_end.load(Ordering::SeqCst) {
                    thread::yield_now();
                }
                drop(walk);
            });
            began.wait();
            scope.spawn(|| sender.send(close()).unwrap());
            assert!(closed.recv_timeout(Duration::from_millis(50)).is_err(), "it waits");
            assert!(enter().is_none(), "none begins meanwhile");
            may_end.store(true, Ordering::SeqCst);
            assert!(closed.recv().unwrap());
        });
        let n_places = places().count();
        thread::scope(|scope| _ = scope.spawn(|| enter().is_none()));
        open();
        (0..20).for_each(|_| assert!(thread::spawn(|| enter().is_some()).join().unwrap()));
        assert!(places().count() <= n_places, "places of threads that have ended are used again");

        // A child of `fork` does not wait for the walk of a thread that does not exist in it.
        let began = Barrier::new(2);
        may_end.store(false, Ordering::SeqCst);
        thread::scope(|scope| {
            scope.spawn(|| {
                let _walk = enter().unwrap();
                began.wait();
                while !may_end.load(Ordering::SeqCst) {
                    thread::yield_now();
                }
            });
            began.wait();
            // SAFETY: the child calls nothing but what follows, and ends.
            let child = unsafe { libc::fork() };
            if child == 0 {
                let is_closed = close();
                // SAFETY: ends the process.
                unsafe { libc::_exit(i32::from(!is_closed)) };
            }
            let mut status = -1;
            // SAFETY: the status is written to a local variable.
            unsafe { libc::waitpid(child, &raw mut status, 0) };
            may_end.store(true, Ordering::SeqCst);
            assert_eq!(status, 0);
        });
        assert!(close());
    }
}
