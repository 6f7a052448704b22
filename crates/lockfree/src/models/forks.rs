//! Models of a fork beside threads that register what it holds, and use it. The forking thread is another thread of the process.
#![forbid(unsafe_code)]

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use super::{explore, spawn};
use crate::{
    forks::{self, Held, Level, Part},
    sync::{Mutex, NotAtomic, lock},
    testing::Forking,
};

/// The parts of a process. They are never dropped.
#[derive(Clone, Copy, Debug)]
struct Forks(&'static forks::Forks<Forking>);

impl Default for Forks {
    fn default() -> Forks {
        Forks(Box::leak(Box::new(forks::Forks::new())))
    }
}

/// A part with a lock. What the lock protects is marked, even where the fork reads it without the lock.
#[derive(Debug, Default)]
struct ForkedPart {
    lock: Mutex<()>,
    mark: NotAtomic,
    /// Odd while the value is half changed. Relaxed: loom orders it by the mark.
    value: AtomicUsize,
}

impl ForkedPart {
    /// Changes the value in two steps.
    fn change(&self) {
        let _guard = lock(&self.lock);
        self.mark.write();
        (0..2).for_each(|_| _ = self.value.fetch_add(1, Ordering::Relaxed));
    }

    /// Returns the value, which is never half changed. The caller has no lock, because it forks.
    fn at_fork(&self) -> usize {
        self.mark.read();
        self.value.load(Ordering::Relaxed)
    }
}

impl Part<Forking> for ForkedPart {
    fn hold(self: Arc<Self>, held: &mut Held<Forking>) {
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
    fn register(&self, part: &Arc<ForkedPart>) {
        self.0.register(Level::Recorder, part);
    }

    /// Registers the one part that is static.
    fn register_static(&self) {
        self.0.register_static(Level::Loader, |_| _ = N_HELD.fetch_add(1, Ordering::Relaxed));
    }

    /// Returns how often the static part was held since the last call.
    fn n_held(&self) -> usize {
        N_HELD.swap(0, Ordering::Relaxed)
    }

    /// Simulates a fork: `meanwhile` runs while everything is held. Afterwards this is the child if `is_child`. Returns
    /// whether everything was held.
    fn fork(&self, is_child: bool, meanwhile: impl FnOnce()) -> bool {
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

/// loom fails if the fork could look at a part while another thread changes it: the mark is read without a lock.
#[test]
fn a_fork_finds_every_part_whole() {
    explore("fork", || {
        let (forks, part) = (Forks::default(), Arc::new(ForkedPart::default()));
        forks.register(&part);
        let theirs = part.clone();
        let thread = spawn(move || theirs.change());
        let mut value = 0;
        assert!(forks.fork(false, || value = part.at_fork()));
        assert!([0, 2].contains(&value), "{value}");
        thread.join().unwrap();
        assert!(forks.fork(false, || value = part.at_fork()) && value == 2);
    });
}

/// A thread that registers while another one forks waits, and changes nothing before.
#[test]
fn a_part_is_held_from_its_registration_on() {
    explore("register", || {
        let (forks, part) = (Forks::default(), Arc::new(ForkedPart::default()));
        let theirs = part.clone();
        let thread = spawn(move || {
            forks.register(&theirs);
            theirs.change();
        });
        let mut value = 0;
        assert!(forks.fork(false, || value = part.at_fork()));
        assert!([0, 2].contains(&value), "{value}");
        thread.join().unwrap();
    });
}

#[test]
fn a_part_that_two_threads_register_is_held_once() {
    explore("one part", || {
        let forks = Forks::default();
        let _ = forks.n_held();
        let thread = spawn(move || forks.register_static());
        forks.register_static();
        thread.join().unwrap();
        assert!(forks.fork(false, || ()));
        assert_eq!(forks.n_held(), 1);
    });
}

/// Two threads fork, one after the other. One of them goes on as the child, begins again with another part, and forks again.
#[test]
fn a_child_begins_again_and_forks_again() {
    explore("begin again", || {
        let (forks, part) = (Forks::default(), Arc::new(ForkedPart::default()));
        forks.register(&part);
        part.change();
        let theirs = part.clone();
        let thread = spawn(move || {
            let mut value = 0;
            assert!(forks.fork(false, || value = theirs.at_fork()));
            assert!([0, 2].contains(&value), "{value}");
        });
        assert!(forks.fork(true, || assert_eq!(part.at_fork(), 2)));
        let later = Arc::new(ForkedPart::default());
        forks.register(&later);
        later.change();
        assert!(forks.fork(true, || assert_eq!((part.at_fork(), later.at_fork()), (0, 2))));
        thread.join().unwrap();
    });
}
