//! Models of an allocator's locks: the turn to call the device, the core, and the observers.
#![forbid(unsafe_code)]

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use super::{
    allocator::{Allocator, Size},
    explore, explore_with,
    recorder::{Action, Recorder},
    spawn,
};

#[test]
fn two_threads_share_blocks_and_streams() {
    explore("share", || {
        let allocator = Allocator::new(&Recorder::on(), 100);
        let theirs = allocator.clone();
        let thread = spawn(move || theirs.free(theirs.alloc(1), true));
        let block = allocator.alloc(1);
        allocator.empty_cache();
        allocator.free(block, false);
        thread.join().unwrap();
        allocator.empty_cache();
        let events = allocator.snapshot();
        let count = |of| events.iter().filter(|(action, _)| *action == of).count();
        assert_eq!((count(Action::Alloc), count(Action::FreeCompleted)), (2, 2));
        assert_eq!(allocator.device.n_taken(), 0, "everything went back");
    });
}

#[test]
fn a_full_device_is_waited_for_while_memory_goes_back() {
    explore("full", || {
        let allocator = Allocator::new(&Recorder::on(), 1);
        allocator.free(allocator.alloc(1), false);
        let theirs = allocator.clone();
        let thread = spawn(move || theirs.empty_cache());
        // Whichever thread gives the only segment back, this one gets it.
        allocator.free(allocator.alloc(2), false);
        thread.join().unwrap();
        allocator.snapshot();
        assert_eq!(allocator.with_core(|core| core.n_ooms), 0);
        allocator.empty_cache();
        assert_eq!(allocator.device.n_taken(), 0);
    });
}

#[test]
fn a_request_fails_only_if_no_block_is_free() {
    explore("stale", || {
        let allocator = Allocator::new(&Recorder::on(), 1);
        let block = allocator.alloc(1);
        let theirs = allocator.clone();
        let thread = spawn(move || theirs.request(Size::OneSegment, 1).is_some());
        allocator.free(block, false);
        let is_allocated = thread.join().unwrap();
        allocator.snapshot();
        assert_eq!(allocator.with_core(|core| core.n_ooms), usize::from(!is_allocated));
    });
}

#[test]
fn a_pool_may_end_while_its_request_waits_for_its_turn() {
    explore("pool", || {
        let allocator = Allocator::new(&Recorder::on(), 100);
        allocator.with_core(|core| (core.has_pool, core.is_routing) = (true, true));
        let theirs = allocator.clone();
        let thread = spawn(move || {
            theirs.with_core(|core| core.is_routing = false);
            theirs.with_turn(|core| core.has_pool = false);
            theirs.empty_cache();
        });
        allocator.free(allocator.alloc(1), false);
        thread.join().unwrap();
        allocator.snapshot();
        allocator.empty_cache();
        assert_eq!(allocator.device.n_taken(), 0, "nothing was taken for a pool that is gone");
    });
}

#[test]
fn a_mark_is_waited_for_while_another_thread_finds_it_passed() {
    explore("wait", || {
        let allocator = Allocator::new(&Recorder::on(), 100);
        let _segment = allocator.alloc(1);
        let block = allocator.alloc(1);
        allocator.device.set_idle(false);
        allocator.free(block, true);
        let theirs = allocator.clone();
        let thread = spawn(move || {
            theirs.device.set_idle(true);
            theirs.free(theirs.alloc(1), false);
        });
        allocator.empty_cache();
        thread.join().unwrap();
        let events = allocator.snapshot();
        assert_eq!(events.iter().filter(|(action, _)| *action == Action::FreeCompleted).count(), 2);
    });
}

#[test]
fn observers_are_called_under_no_lock() {
    explore_with("oom", Some(2), || {
        let allocator = Allocator::new(&Recorder::on(), 2);
        let (n_calls, theirs) = (Arc::new(AtomicUsize::new(0)), Arc::downgrade(&allocator));
        let n_calls_too = n_calls.clone();
        allocator.observers.add(Arc::new(move || {
            let allocator = theirs.upgrade().unwrap();
            // Each of these takes a lock of the allocator.
            let held = allocator.alloc(0);
            assert!(!allocator.snapshot().is_empty());
            allocator.observers.add(Arc::new(|| {}));
            // Relaxed: a count, and not loom's.
            n_calls_too.fetch_add(1, Ordering::Relaxed);
            allocator.free(held, false);
        }));
        let theirs = allocator.clone();
        let thread = spawn(move || assert_eq!(theirs.request(Size::TooMuch, 0), None));
        assert_eq!(allocator.request(Size::TooMuch, 0), None);
        thread.join().unwrap();
        assert_eq!((n_calls.load(Ordering::Relaxed), allocator.with_core(|core| core.n_ooms)), (2, 2));
        allocator.empty_cache();
        assert_eq!(allocator.device.n_taken(), 0);
    });
}
