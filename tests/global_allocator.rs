//! A recorder in the process's own allocator: what it allocates for itself does not come back to it.
//!
//! A process of its own, because a process has one global allocator.

#[path = "hangs/no_list.rs"]
mod no_list;

use std::{
    alloc::{GlobalAlloc, Layout, System},
    sync::OnceLock,
};

use memreel::{
    Action, Address, DeviceId, PoolId, StreamId,
    integrate::{Event, StackId, Track},
    recorder::{Recorder, Recording},
    snapshot::{self, Dialect},
};

use no_list::NoList;

struct Recorded;

#[global_allocator]
static ALLOCATOR: Recorded = Recorded;

/// Blocks of this size and larger get a name when they are allocated.
const LARGE: usize = 1_000_003;

static TRACK: OnceLock<Track> = OnceLock::new();

fn event(action: Action, pointer: *mut u8, layout: Layout, stack: StackId) -> Event {
    Event {
        action,
        address: Address(pointer as u64),
        size_bytes: layout.size() as u64,
        stream: StreamId::DEFAULT,
        pool: PoolId::DEFAULT,
        stack,
    }
}

// SAFETY: memory comes from and goes to the system's allocator, with the layout of the request.
unsafe impl GlobalAlloc for Recorded {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise about the layout is passed on.
        let pointer = unsafe { System.alloc(layout) };
        if let Some(track) = TRACK.get() {
            let allocated = event(Action::Alloc, pointer, layout, track.stack_of_alloc(layout.size() as u64));
            track.record_unlocked(allocated);
            if layout.size() >= LARGE {
                track.annotate(allocated, "large");
            }
        }
        pointer
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        if let Some(track) = TRACK.get() {
            let stack = track.stack_of_free(StackId::NONE);
            track.record_unlocked(event(Action::FreeRequested, pointer, layout, stack));
            track.record_unlocked(event(Action::FreeCompleted, pointer, layout, stack));
        }
        // SAFETY: the caller's promise about the pointer and its layout is passed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

/// Returns how many events this process records while it forks.
#[cfg(unix)]
fn n_events_of_a_fork(recorder: &Recorder) -> usize {
    let n_before = recorder.n_events(DeviceId(0));
    // SAFETY: the child only ends, and is waited for once.
    unsafe {
        match libc::fork() {
            0 => libc::_exit(0),
            child => assert_eq!(libc::waitpid(child, std::ptr::null_mut(), 0), child),
        }
    }
    recorder.n_events(DeviceId(0)) - n_before
}

#[test]
fn a_snapshot_of_the_global_allocator_is_collected_and_named() {
    let recorder = Recorder::new();
    recorder.record_history(&Recording::all());
    assert!(TRACK.set(recorder.track(DeviceId(0))).is_ok());
    // The harness's own thread may allocate meanwhile, but not each time.
    #[cfg(unix)]
    assert_eq!(
        (0..20).map(|_| n_events_of_a_fork(&recorder)).min(),
        Some(0),
        "what a fork allocates and frees is not recorded"
    );
    let kept: Vec<Vec<u8>> = (1..=20).map(|n| vec![0; LARGE * n]).collect();
    // The recorder keeps a copy of the name, which is as large as blocks that the allocator names.
    drop(recorder.scope(&"a".repeat(2 * LARGE + 1)));
    let snapshot = snapshot::collect(&recorder, [&NoList], Dialect::default());
    recorder.record_history(&Recording::off());
    let is_ours = |bytes: u64| kept.iter().any(|vector| vector.len() as u64 == bytes);
    let allocs = snapshot.device_traces[0].iter().filter(|entry| entry.action == Some(Action::Alloc));
    let ours: Vec<_> = allocs.filter(|entry| is_ours(entry.size)).collect();
    assert_eq!(ours.len(), kept.len());
    let named = snapshot.device_traces[0].iter().filter(|entry| entry.action == Some(Action::Annotate));
    let named: Vec<(u64, &str)> = named.map(|entry| (entry.size, snapshot.user_metadata(entry))).collect();
    let of_name = (2 * LARGE as u64 + 1, "large");
    let wanted = kept.iter().map(|vector| (vector.len() as u64, "large")).chain([of_name]);
    assert_eq!(named, wanted.collect::<Vec<_>>(), "the copy of the scope's name is not recorded");
    for entry in ours {
        let names: Vec<_> = snapshot.frames(entry.stack).map(|frame| &*frame.name).collect();
        assert!(names.iter().any(|name| name.contains("a_snapshot_of_the_global_allocator")), "{names:?}");
    }
}
