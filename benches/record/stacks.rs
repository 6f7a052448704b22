//! Events with stacks, and the stacks alone by every method.

use std::{hint::black_box, time::Instant};

use memreel::{
    DeviceId, StackId,
    recorder::{History, Recorder, StackMethod, stack_method},
};

use crate::{
    chains,
    events::event,
    peers::{self, Framehop},
    tell::{Teller, median},
};

const N_RUNS: u32 = 20_000;
/// The others take a hundred times as long.
const N_SLOW_RUNS: u32 = 1_000;
const N_BATCHES: usize = 31;
/// More than a tape holds.
const N_WARM: u32 = 1_100_000;

/// Which call sites a chain goes through the n-th time.
type Path = fn(u32) -> u32;

pub(crate) fn measure(teller: &Teller) {
    let recorder = Recorder::new();
    recorder.record_history(&History::all());
    let track = recorder.track(DeviceId(0));
    // A tape that is full takes no new memory: its first round costs a page fault every 128 events.
    (0..N_WARM).for_each(|n| track.record(event(n, StackId::NONE)));
    let mut framehop = Framehop::new();
    let cases: [(&str, Path); 3] = [
        ("stack20_same", chains::same),
        ("stack20_inner4", chains::inner4),
        ("stack20_other", chains::other),
    ];
    for (case, path) in cases {
        // What the chain itself takes is no part of any figure.
        let empty = run(N_RUNS, path, &mut || ());
        let tell = |method: &str, ns: f64| teller.tell(case, method, ns - empty);
        let mut n = 0;
        let whole = run(N_RUNS, path, &mut || {
            n += 1;
            let stack = track.stack_of_alloc(512);
            track.record(black_box(event(n, stack)));
        });
        tell("memreel", whole);
        let best = stack_method();
        for method in [StackMethod::FramePointers, StackMethod::Reuse, StackMethod::Rules] {
            method.force();
            let alone = run(N_RUNS, path, &mut || _ = black_box(track.stack_of_alloc(512)));
            tell(&format!("memreel {}, stack alone", method.name()), alone);
        }
        best.force();
        if let Some(framehop) = &mut framehop {
            tell("framehop", run(N_RUNS / 4, path, &mut || _ = black_box(framehop.walk())));
        }
        tell("backtrace::trace", run(N_SLOW_RUNS, path, &mut || _ = black_box(peers::trace())));
        tell(
            "Backtrace::new_unresolved",
            run(N_SLOW_RUNS, path, &mut || _ = black_box(backtrace::Backtrace::new_unresolved())),
        );
    }
}

/// Nanoseconds a run of the chain with `end` at its end, the median batch.
fn run(n_runs: u32, path: Path, end: &mut dyn FnMut()) -> f64 {
    median(N_BATCHES, || {
        let start = Instant::now();
        for i in 0..n_runs {
            black_box(chains::run(path(i), end));
        }
        start.elapsed().as_secs_f64() * 1e9 / f64::from(n_runs)
    })
}
