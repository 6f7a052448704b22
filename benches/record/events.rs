//! Cases of events without stacks.

use std::{hint::black_box, sync::Barrier};

use memreel::{
    Action, Address, DeviceId, PoolId, StreamId,
    integrate::{Event, StackId, Track},
    recorder::{Context, Recorder, Recording},
};

use crate::report::{Reporter, median_ns};

const N_EVENTS: u32 = 100_000;

/// An allocation for an even `n`, its free for the odd `n` after it.
pub(crate) fn event(n: u32, stack: StackId) -> Event {
    let action = if n.is_multiple_of(2) { Action::Alloc } else { Action::FreeRequested };
    let address = Address(0x7f00_0000_0000 + u64::from(n / 2) * 512);
    Event { action, address, size_bytes: 512, stream: StreamId::DEFAULT, pool: PoolId::DEFAULT, stack }
}

fn track(history: &Recording) -> Track {
    let recorder = Recorder::new();
    recorder.record_history(history);
    recorder.track(DeviceId(0))
}

/// Recording without stacks.
fn bare() -> Recording {
    Recording::all().context(Context::None)
}

pub(crate) fn measure(reporter: &Reporter) {
    let off = track(&Recording::off());
    reporter.report(
        "off",
        "memreel",
        median_ns(N_EVENTS, |n| off.record(black_box(event(n, StackId::NONE)))),
    );
    let clock = quanta::Clock::new();
    reporter.report("clock", "quanta", median_ns(N_EVENTS, |_| _ = black_box(clock.raw())));
    let on = track(&bare());
    reporter.report(
        "none",
        "memreel",
        median_ns(N_EVENTS, |n| on.record(black_box(event(n, StackId::NONE)))),
    );
    // The same ring, in memory and in a file; all drop their oldest events.
    let ring = |history: Recording| history.max_entries(N_EVENTS as usize);
    let folder = tempfile::tempdir().expect("a folder for a tape");
    let in_file = |name: &str| track(&ring(bare()).tape(folder.path().join(name)));
    let report_ring = |name: &str, track: &Track| {
        let ns = median_ns(N_EVENTS, |n| track.record(black_box(event(n, StackId::NONE))));
        reporter.report(name, "memreel", ns);
    };
    report_ring("ring", &track(&ring(bare())));
    // A program of one thread keeps its tape itself; one with several has another thread for it.
    report_ring("ring_in_file_alone", &in_file("alone.tape"));
    let waiting = std::thread::spawn(std::thread::park);
    report_ring("ring_in_file", &in_file("bench.tape"));
    waiting.thread().unpark();
    reporter.report("none_by_time", "memreel", by_time(&on));
    reporter.report("two_threads_none", "memreel", two_threads(&track(&bare())));
}

/// Nanoseconds per event of a source without a lock.
fn by_time(track: &Track) -> f64 {
    median_ns(N_EVENTS, |n| track.record_unlocked(black_box(event(n, StackId::NONE))))
}

/// The slower of two threads that record at once.
fn two_threads(track: &Track) -> f64 {
    let barrier = Barrier::new(2);
    let one = || {
        barrier.wait();
        by_time(track)
    };
    let (a, b) = std::thread::scope(|threads| {
        let (a, b) = (threads.spawn(one), threads.spawn(one));
        (a.join().unwrap_or(f64::NAN), b.join().unwrap_or(f64::NAN))
    });
    a.max(b)
}
