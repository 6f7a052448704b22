//! What recording costs: an event without a stack, with one, off; and the export.
//!
//! ```text
//! cargo bench --bench record              a table
//! cargo bench --bench record -- --json    one JSON object a line
//! ```
//!
//! Each figure is the median of 31 batches. `off`, `none`: one event on one
//! thread. `two_threads_none`: the same on two threads at once, recording by
//! time on one track, each thread's own figure; `none_unlocked` is the same on
//! one thread alone. `stack20_*`: an event with a stack of 20 frames more
//! than the bench has: always the same, with other innermost 4 frames each time, or
//! all of them others. Beside memreel stand what others take for the stack
//! alone. `frame_pointers` says whether this build's code keeps them.

use std::{hint::black_box, sync::Barrier, time::Instant};

use memreel::{
    Action, Address, DeviceId, Event, PoolId, StackId, StreamId,
    recorder::{Context, History, Recorder, Track},
};

const N_BATCHES: usize = 31;

fn main() {
    let teller = Teller { is_json: std::env::args().any(|argument| argument == "--json") };
    events(&teller);
    two_threads(&teller);
}

/// Prints one figure a line.
struct Teller {
    is_json: bool,
}

impl Teller {
    fn tell(&self, case: &str, method: &str, ns: f64) {
        if self.is_json {
            println!(
                "{{\"case\":\"{case}\",\"method\":\"{method}\",\"frame_pointers\":{},\"ns\":{ns:.1}}}",
                cfg!(frame_pointers)
            );
        } else {
            println!("{case:<24} {method:<28} {ns:>10.1} ns");
        }
    }
}

/// Nanoseconds a call, the median batch.
fn median_ns(n: u32, mut call: impl FnMut(u32)) -> f64 {
    let mut batches: Vec<f64> = (0..N_BATCHES)
        .map(|_| {
            let start = Instant::now();
            (0..n).for_each(&mut call);
            start.elapsed().as_secs_f64() * 1e9 / f64::from(n)
        })
        .collect();
    batches.sort_by(f64::total_cmp);
    batches[N_BATCHES / 2]
}

fn event(n: u32, stack: StackId) -> Event {
    let action = if n.is_multiple_of(2) { Action::Alloc } else { Action::FreeRequested };
    let address = Address(0x7f00_0000_0000 + u64::from(n / 2) * 512);
    Event { action, address, size_bytes: 512, stream: StreamId::DEFAULT, pool: PoolId::default(), stack }
}

fn track(history: &History) -> Track {
    let recorder = Recorder::new();
    recorder.record_history(history);
    recorder.track(DeviceId(0))
}

/// Recording without stacks.
fn bare() -> History {
    History::all().context(Context::None)
}

fn events(teller: &Teller) {
    let off = track(&History::off());
    teller.tell("off", "memreel", median_ns(100_000, |n| off.record(black_box(event(n, StackId::NONE)))));
    let on = track(&bare());
    teller.tell("none", "memreel", median_ns(100_000, |n| on.record(black_box(event(n, StackId::NONE)))));
    let ns = median_ns(100_000, |n| on.record_unlocked(black_box(event(n, StackId::NONE))));
    teller.tell("none_unlocked", "memreel", ns);
    let small = track(&bare().max_entries(20_000));
    teller.tell(
        "none_small",
        "memreel",
        median_ns(100_000, |n| small.record(black_box(event(n, StackId::NONE)))),
    );
    let clock = quanta::Clock::new();
    teller.tell("clock", "quanta", median_ns(100_000, |_| _ = black_box(clock.raw())));
}

fn two_threads(teller: &Teller) {
    let on = track(&bare());
    let barrier = Barrier::new(2);
    let one = || {
        barrier.wait();
        median_ns(100_000, |n| on.record_unlocked(black_box(event(n, StackId::NONE))))
    };
    let (a, b) = std::thread::scope(|threads| {
        let (a, b) = (threads.spawn(one), threads.spawn(one));
        (a.join().unwrap_or(f64::NAN), b.join().unwrap_or(f64::NAN))
    });
    teller.tell("two_threads_none", "memreel", a.max(b));
}
