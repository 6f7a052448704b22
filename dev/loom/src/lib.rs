//! The lock protocol under every interleaving.
//!
//! `cargo xtask gate --only loom` builds the library on loom's locks (`src/process/sync.rs`) and runs the real
//! recorder and allocator. The protocol: the turn to call the device, then an
//! allocator's lock, which is released during such a call, then the state of a
//! tape; the tables alone; observers under no lock. A switch of the recording
//! stores the mode and goes through the tapes one after the other. Threads
//! write in chunks of their own, which hold four events here, and hand them
//! over under that state's lock. loom reports a deadlock by itself.
#![cfg(all(test, loom))]
#![forbid(unsafe_code)]

mod allocator;
mod chunks;
mod forks;
mod heap;
mod recording;
mod stacks;

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use loom::{
    model::Builder,
    thread::{self, JoinHandle},
};
use memreel::{
    Action, CachingAllocator, DeviceId, Snapshot,
    device::Simulated,
    recorder::{Context, Recorder, Recording},
    snapshot::{Dialect, collect},
};

const MIB: u64 = 1 << 20;
const DEVICE: DeviceId = DeviceId(0);

/// Runs a model; says how many interleavings there were.
fn explore(name: &str, model: impl Fn() + Sync + Send + 'static) {
    explore_with(name, None, model);
}

/// As [`explore`], but only those in which a thread is interrupted so often at
/// most, where all of them are a million. Errors of a protocol show with two.
fn explore_with(name: &str, most_interruptions: Option<usize>, model: impl Fn() + Sync + Send + 'static) {
    let n = Arc::new(AtomicUsize::new(0));
    let n_too = n.clone();
    let mut builder = Builder::new();
    builder.max_branches = 100_000;
    builder.preemption_bound = most_interruptions;
    builder.check(move || {
        n_too.fetch_add(1, Ordering::Relaxed);
        model();
    });
    println!("{name}: {} interleavings", n.load(Ordering::Relaxed));
}

/// A thread with room for what the crate puts on a stack.
fn spawn<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    thread::Builder::new().stack_size(1 << 16).spawn(work).unwrap()
}

fn history() -> Recording {
    Recording::all().context(Context::None).max_entries(50)
}

fn recorder() -> Recorder {
    let recorder = Recorder::new();
    recorder.record_history(&history());
    recorder
}

fn allocator(recorder: &Recorder) -> CachingAllocator {
    CachingAllocator::new(Simulated::new(100 * MIB), &recorder.track(DEVICE))
}

fn snapshot(recorder: &Recorder, allocator: &CachingAllocator) -> Snapshot {
    collect(recorder, [allocator], Dialect::default())
}

/// What a trace from the beginning says is in use, and what the segments say.
fn assert_agrees(snapshot: &Snapshot) {
    let mut in_use = 0;
    for entry in &snapshot.device_traces[0] {
        match entry.action {
            Some(Action::Alloc) => in_use += entry.size,
            Some(Action::FreeCompleted) => in_use -= entry.size,
            _ => {}
        }
    }
    let requested: u64 = snapshot.segments.iter().map(|segment| segment.requested_size).sum();
    assert_eq!(in_use, requested, "the trace and the segments are of one moment");
}
