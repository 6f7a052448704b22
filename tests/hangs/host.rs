//! This program's own allocator: it marks when it is entered, and reports every allocation once a track is set.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
    hint::black_box,
    sync::{
        OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use memreel::{
    Action, Address, DeviceId, PoolId, StreamId,
    integrate::{Event, StackId, Track, name_addresses},
    recorder::{Recorder, Recording},
    snapshot::{Dialect, collect},
};

use crate::{no_list::NoList, own_process};

struct Host;

#[global_allocator]
static ALLOCATOR: Host = Host;

static TRACK: OnceLock<Track> = OnceLock::new();

thread_local! {
    static IS_INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// Whether this thread is in the host's allocator, which a signal handler must not enter again.
pub(crate) fn is_inside() -> bool {
    IS_INSIDE.try_with(Cell::get).unwrap_or(true)
}

fn marked<T>(call: impl FnOnce() -> T) -> T {
    let before = IS_INSIDE.try_with(|inside| inside.replace(true)).unwrap_or(true);
    let result = call();
    let _ = IS_INSIDE.try_with(|inside| inside.set(before));
    result
}

fn record(track: &Track, action: Action, pointer: *mut u8, layout: Layout, stack: StackId) {
    let (address, stream, pool) = (Address(pointer as u64), StreamId::DEFAULT, PoolId::DEFAULT);
    track.record_unlocked(Event { action, address, size_bytes: layout.size() as u64, stream, pool, stack });
}

// SAFETY: memory comes from and goes to the system's allocator, with the layout of the request.
unsafe impl GlobalAlloc for Host {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise about the layout is passed on.
        let pointer = marked(|| unsafe { System.alloc(layout) });
        if let Some(track) = TRACK.get() {
            let stack = track.stack_of_alloc(layout.size() as u64);
            record(track, Action::Alloc, pointer, layout, stack);
        }
        pointer
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        if let Some(track) = TRACK.get() {
            let stack = track.stack_of_free(StackId::NONE);
            record(track, Action::FreeRequested, pointer, layout, stack);
            record(track, Action::FreeCompleted, pointer, layout, stack);
        }
        // SAFETY: the caller's promise about the pointer and its layout is passed on.
        marked(|| unsafe { System.dealloc(pointer, layout) });
    }
}

#[test]
fn a_reporting_allocator_is_recorded_while_snapshots_are_taken() {
    own_process::run(
        module_path!(),
        "a_reporting_allocator_is_recorded_while_snapshots_are_taken",
        Duration::from_secs(120),
        || {
            let recorder = Recorder::new();
            recorder.record_history(&Recording::all().max_entries(3000));
            assert!(TRACK.set(recorder.track(DeviceId(0))).is_ok());
            let is_over = AtomicBool::new(false);
            thread::scope(|scope| {
                for i in 0..2 {
                    let (is_over, recorder) = (&is_over, &recorder);
                    scope.spawn(move || {
                        let mut n = i;
                        while !is_over.load(Ordering::Relaxed) {
                            drop(black_box(vec![0_u8; 100 + n % 5000]));
                            let _scope = recorder.scope(&format!("scope {}", n % 40));
                            n += 1;
                        }
                    });
                }
                for n in 0..4 {
                    // Outside of a snapshot the look-up of names is not the recorder's own work.
                    let within =
                        a_reporting_allocator_is_recorded_while_snapshots_are_taken as fn() as usize + 1;
                    assert_eq!(name_addresses(&[within + n]).len(), 1);
                    // The threads may not have run yet; one that never records ends with the time of the process.
                    while collect(&recorder, [&NoList], Dialect::default()).device_traces[0].len() <= 100 {
                        thread::yield_now();
                    }
                    recorder.record_history(&Recording::all().max_entries(2000 + n));
                }
                is_over.store(true, Ordering::Relaxed);
            });
            recorder.record_history(&Recording::off());
        },
    );
}
