//! Models of a fork beside threads that register what it holds, and use it.

use std::sync::Arc;

use memreel::integrate::{ForkedPart, Forks};

use crate::{explore, spawn};

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
