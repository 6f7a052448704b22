//! Cases of events with stacks, and of the stack alone by every method.

use std::{hint::black_box, time::Instant};

use memreel::{
    DeviceId,
    integrate::{StackId, StackMethod, set_stack_method, stack_method},
    recorder::{Recorder, Recording},
};

use crate::{
    chains,
    events::event,
    peers::{self, Framehop},
    report::{Reporter, median},
};

const N_RUNS: u32 = 20_000;
/// Runs of the slow libraries, which take a hundred times as long.
const N_SLOW_RUNS: u32 = 1_000;
const N_BATCHES: usize = 31;
/// More events than a tape holds.
const N_WARM: u32 = 1_100_000;

/// Selects the call sites of a chain for run `n`.
type Path = fn(u32) -> u32;

pub(crate) fn measure(reporter: &Reporter) {
    let recorder = Recorder::new();
    recorder.record_history(&Recording::all());
    let track = recorder.track(DeviceId(0));
    // Fill the tape first: until it is full, it takes new memory, a page fault every 128 events.
    (0..N_WARM).for_each(|n| track.record(event(n, StackId::NONE)));
    let mut framehop = Framehop::new();
    let cases: [(&str, Path); 3] = [
        ("stack20_same", chains::same),
        ("stack20_inner4", chains::inner4),
        ("stack20_other", chains::other),
    ];
    for (case, path) in cases {
        // The time of the chain itself is subtracted from every figure.
        let empty = run(N_RUNS, path, &mut || ());
        let report = |method: &str, ns: f64| reporter.report(case, method, ns - empty);
        let mut n = 0;
        let whole = run(N_RUNS, path, &mut || {
            n += 1;
            let stack = track.stack_of_alloc(512);
            track.record(black_box(event(n, stack)));
        });
        report("memreel", whole);
        let best = stack_method();
        for method in [StackMethod::FramePointers, StackMethod::Reuse, StackMethod::Rules] {
            set_stack_method(method);
            let alone = run(N_RUNS, path, &mut || _ = black_box(track.stack_of_alloc(512)));
            report(&format!("memreel {}, stack alone", method.name()), alone);
        }
        set_stack_method(best);
        if let Some(framehop) = &mut framehop {
            report("framehop", run(N_RUNS / 4, path, &mut || _ = black_box(framehop.walk())));
        }
        report("backtrace::trace", run(N_SLOW_RUNS, path, &mut || _ = black_box(peers::trace())));
        report(
            "Backtrace::new_unresolved",
            run(N_SLOW_RUNS, path, &mut || _ = black_box(backtrace::Backtrace::new_unresolved())),
        );
    }
}

/// Nanoseconds per run of the chain that calls `end` at its end, in the median batch.
fn run(n_runs: u32, path: Path, end: &mut dyn FnMut()) -> f64 {
    median(N_BATCHES, || {
        let start = Instant::now();
        for i in 0..n_runs {
            black_box(chains::run(path(i), end));
        }
        start.elapsed().as_secs_f64() * 1e9 / f64::from(n_runs)
    })
}
