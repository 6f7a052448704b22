//! Models of an allocator's locks: the turn to call the device, the heap, and the observers.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use memreel::{
    Action, CachingAllocator, StreamId,
    allocator::{PoolOptions, Route},
    device::{Device, Simulated},
    integrate::Inventory,
};

use crate::{DEVICE, MIB, allocator, assert_agrees, explore, explore_with, recorder, snapshot, spawn};

#[test]
fn two_threads_share_blocks_and_streams() {
    explore("share", || {
        let recorder = recorder();
        let allocator = allocator(&recorder);
        let theirs = allocator.clone();
        let thread = spawn(move || {
            let block = theirs.alloc(1000, StreamId(1)).unwrap();
            block.record_stream(StreamId(2));
            block.free().unwrap();
        });
        let block = allocator.alloc(3000, StreamId(1)).unwrap();
        allocator.empty_cache().unwrap();
        drop(block);
        thread.join().unwrap();
        allocator.empty_cache().unwrap();
        let last = snapshot(&recorder, &allocator);
        assert_agrees(&last);
        assert!(last.segments.is_empty(), "everything went back");
        let stats = allocator.stats();
        assert_eq!((stats.allocation.all.allocated, stats.active.all.freed), (2, 2));
    });
}

#[test]
fn a_full_device_is_waited_for_while_memory_goes_back() {
    explore_with("full", Some(4), || {
        let recorder = recorder();
        let device = Arc::new(Simulated::new(2 * MIB));
        let allocator = CachingAllocator::new(device.clone(), &recorder.track(DEVICE));
        drop(allocator.alloc(1000, StreamId(1)).unwrap());
        let theirs = allocator.clone();
        let thread = spawn(move || theirs.empty_cache().unwrap());
        // Whichever thread gives the only segment back, this one gets it.
        drop(allocator.alloc(1000, StreamId(2)).unwrap());
        thread.join().unwrap();
        assert_agrees(&snapshot(&recorder, &allocator));
        assert_eq!(allocator.stats().num_ooms, 0);
        allocator.empty_cache().unwrap();
        assert_eq!(device.n_segments(), 0);
    });
}

#[test]
fn a_pool_may_end_while_its_request_waits_for_its_turn() {
    explore_with("pool", Some(2), || {
        let recorder = recorder();
        let device = Arc::new(Simulated::new(100 * MIB));
        let allocator = CachingAllocator::new(device.clone(), &recorder.track(DEVICE));
        let pool = allocator.create_pool(PoolOptions::default());
        allocator.begin_pool(pool, Route::Streams(Box::new(|stream| stream == StreamId(1)))).unwrap();
        let theirs = allocator.clone();
        let thread = spawn(move || {
            theirs.end_pool(pool).unwrap();
            (0..2).for_each(|_| theirs.release_pool(pool).unwrap());
            theirs.empty_cache().unwrap();
        });
        drop(allocator.alloc(1000, StreamId(1)).unwrap());
        thread.join().unwrap();
        assert_agrees(&snapshot(&recorder, &allocator));
        allocator.empty_cache().unwrap();
        assert!(allocator.release_pool(pool).is_err(), "the pool is erased");
        assert_eq!(device.n_segments(), 0, "nothing was taken for a pool that is gone");
    });
}

#[test]
fn a_mark_is_waited_for_while_another_thread_finds_it_passed() {
    explore_with("wait", Some(2), || {
        let recorder = recorder();
        let device = Arc::new(Simulated::new(100 * MIB));
        let allocator = CachingAllocator::new(device.clone(), &recorder.track(DEVICE));
        let _segment = allocator.alloc(1000, StreamId(1)).unwrap();
        let block = allocator.alloc(1000, StreamId(1)).unwrap();
        device.set_busy(StreamId(2));
        block.record_stream(StreamId(2));
        block.free().unwrap();
        let theirs = (device.clone(), allocator.clone());
        let thread = spawn(move || {
            theirs.0.set_idle(StreamId(2));
            drop(theirs.1.alloc(1000, StreamId(1)).unwrap());
        });
        allocator.empty_cache().unwrap();
        thread.join().unwrap();
        let last = snapshot(&recorder, &allocator);
        assert_agrees(&last);
        let completed = last.device_traces[0].iter().filter(|e| e.action == Some(Action::FreeCompleted));
        assert_eq!((completed.count(), allocator.stats().active.all.current), (2, 1));
    });
}

#[test]
fn observers_are_told_under_no_lock() {
    explore_with("oom", Some(2), || {
        let recorder = recorder();
        let device = Arc::new(Simulated::new(4 * MIB));
        let allocator = CachingAllocator::new(device.clone(), &recorder.track(DEVICE));
        let (told, theirs) = (Arc::new(AtomicUsize::new(0)), allocator.clone());
        let told_too = told.clone();
        allocator.on_oom(move |figures| {
            // Each of these takes the allocator's lock.
            let _held = theirs.alloc(1000, StreamId(0)).unwrap();
            theirs.inspect(&mut |segments| assert!(!segments.is_empty()));
            theirs.on_oom(|_| {});
            told_too.fetch_add(1, Ordering::Relaxed);
            assert_eq!(figures.requested_bytes, 10 * MIB);
        });
        let theirs = allocator.clone();
        let thread = spawn(move || assert!(theirs.alloc(10 * MIB, StreamId(0)).is_err()));
        assert!(allocator.alloc(10 * MIB, StreamId(0)).unwrap_err().is_out_of_memory());
        thread.join().unwrap();
        assert_eq!(told.load(Ordering::Relaxed), 2);
        assert_eq!(allocator.stats().num_ooms, 2);
        allocator.empty_cache().unwrap();
        assert_eq!(device.free_bytes(), device.total_bytes());
    });
}
