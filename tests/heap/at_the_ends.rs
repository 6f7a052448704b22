//! Before `main`, after it, and while a thread's storage is destroyed.

use std::{
    cell::RefCell,
    hint::black_box,
    sync::atomic::{AtomicUsize, Ordering},
    thread,
    time::Duration,
};

use memreel::{Action, recorder::Recording};

use crate::{
    own_process,
    taken::{events_at, live_at, sound_snapshot},
};

const LIMIT: Duration = Duration::from_secs(60);

static BEFORE_MAIN: AtomicUsize = AtomicUsize::new(0);

/// Runs before `main`: allocates a block, and in the process of one test records it.
extern "C" fn before_main() {
    let own = std::env::var("MEMREEL_TEST_IN_OWN_PROCESS");
    if own.is_ok_and(|test| test == "recording_may_begin_before_main") {
        memreel::record_history(&Recording::all()).unwrap();
    }
    let block = black_box(vec![3_u8; 3333]);
    BEFORE_MAIN.store(block.leak().as_ptr().addr(), Ordering::Relaxed);
}

#[used]
#[unsafe(link_section = ".init_array")]
static CONSTRUCTOR: extern "C" fn() = before_main;

/// Takes back the block from before `main`.
fn block_from_before_main() -> Vec<u8> {
    let address = BEFORE_MAIN.swap(0, Ordering::Relaxed);
    assert_ne!(address, 0);
    // SAFETY: the vector that was leaked, which is taken back once.
    unsafe { Vec::from_raw_parts(std::ptr::with_exposed_provenance_mut(address), 3333, 3333) }
}

#[test]
fn a_block_from_before_recording_is_freed_without_an_event() {
    own_process::run(
        module_path!(),
        "a_block_from_before_recording_is_freed_without_an_event",
        LIMIT,
        || {
            memreel::record_history(&Recording::all()).unwrap();
            let block = block_from_before_main();
            let address = block.as_ptr().addr();
            drop(block);
            let events = events_at(&sound_snapshot(), address);
            assert!(events.first().is_none_or(|(action, _)| *action == Action::Alloc), "{events:?}");
        },
    );
}

#[test]
fn recording_may_begin_before_main() {
    own_process::run(module_path!(), "recording_may_begin_before_main", LIMIT, || {
        let block = block_from_before_main();
        let address = block.as_ptr().addr();
        assert_eq!(live_at(&sound_snapshot(), address), Some(3333));
        drop(block);
        assert_eq!(live_at(&sound_snapshot(), address), None);
    });
}

/// Allocates a block of its size when it is dropped, which it keeps for good.
struct AllocatesAtItsEnd(usize);

static AT_THE_END: AtomicUsize = AtomicUsize::new(0);

impl Drop for AllocatesAtItsEnd {
    fn drop(&mut self) {
        drop(black_box(vec![1_u8; self.0 + 1]));
        AT_THE_END.store(black_box(vec![1_u8; self.0]).leak().as_ptr().addr(), Ordering::Relaxed);
    }
}

thread_local! {
    static FIRST: RefCell<Option<AllocatesAtItsEnd>> = const { RefCell::new(None) };
}

/// The storage is used before the thread's first event, so it is destroyed after the recorder's own.
#[test]
fn destructors_of_a_threads_storage_are_recorded() {
    own_process::run(module_path!(), "destructors_of_a_threads_storage_are_recorded", LIMIT, || {
        memreel::record_history(&Recording::all()).unwrap();
        thread::spawn(|| FIRST.set(Some(AllocatesAtItsEnd(4444)))).join().unwrap();
        let snapshot = sound_snapshot();
        assert_eq!(live_at(&snapshot, AT_THE_END.load(Ordering::Relaxed)), Some(4444));
        let n_of = |size| snapshot.device_traces[1].iter().filter(|entry| entry.size == size).count();
        assert_eq!(n_of(4445), 3, "an alloc and its free");
    });
}

extern "C" fn after_main() {
    let block = black_box(vec![1_u8; 5555]);
    let is_there = live_at(&sound_snapshot(), block.as_ptr().addr()) == Some(5555);
    if !is_there {
        // SAFETY: ends the process, whose parent looks at the status.
        unsafe { libc::_exit(7) }
    }
}

#[test]
fn a_snapshot_can_be_taken_after_main() {
    own_process::run(module_path!(), "a_snapshot_can_be_taken_after_main", LIMIT, || {
        memreel::record_history(&Recording::all()).unwrap();
        // SAFETY: a function of static life.
        assert_eq!(unsafe { libc::atexit(after_main) }, 0);
    });
}
