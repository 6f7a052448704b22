//! What one captured stack costs: `cargo bench --bench stacks`.
//!
//! One JSON object a line: the case, the method, nanoseconds a capture (the
//! median of batches, the cost of running the chain taken off), and how many
//! frames the capture saw. The other tools run on the same chains in the same run.
//! `-- reuse others` measures only these.

mod chains;

use std::{hint::black_box, time::Instant};

use memreel::{
    DeviceId,
    recorder::{History, Recorder, StackMethod, stack_method},
};

const N_BATCHES: usize = 31;
const N_RUNS: u32 = 20_000;

fn main() {
    let recorder = Recorder::new();
    recorder.record_history(&History::all().max_entries(1));
    let track = recorder.track(DeviceId(0));
    let best = stack_method();
    println!("{{\"chosen\":\"{}\"}}", best.name());
    let cases =
        [("same", chains::same as fn(u32) -> u32), ("inner4", chains::inner4), ("other", chains::other)];
    for (case, path) in cases {
        let empty = median(N_RUNS, path, &mut || ());
        for method in
            [StackMethod::FramePointers, StackMethod::Reuse, StackMethod::Rules, StackMethod::Backtrace]
        {
            if !is_wanted(method.name()) {
                continue;
            }
            method.force();
            let n_runs = if method == StackMethod::Backtrace { N_RUNS / 20 } else { N_RUNS };
            let ns = median(n_runs, path, &mut || {
                black_box(track.stack_of_alloc(512));
            });
            say(case, &format!("memreel {}", method.name()), ns - empty);
        }
        best.force();
        if !is_wanted("others") {
            continue;
        }
        let mut addresses = [0_usize; 128];
        let ns = median(N_RUNS / 20, path, &mut || {
            let mut n = 0;
            // SAFETY: on Linux the walk is `_Unwind_Backtrace`, which is safe on several threads.
            unsafe {
                backtrace::trace_unsynchronized(|frame| {
                    addresses[n] = frame.ip().addr();
                    n += 1;
                    n < 128
                });
            }
            black_box(&addresses);
        });
        say(case, "backtrace::trace_unsynchronized", ns - empty);
        let ns = median(N_RUNS / 20, path, &mut || {
            black_box(backtrace::Backtrace::new_unresolved());
        });
        say(case, "Backtrace::new_unresolved", ns - empty);
    }
}

/// Whether the command line names this method, or none.
fn is_wanted(name: &str) -> bool {
    let mut names = std::env::args().skip(1).filter(|arg| !arg.starts_with("--")).peekable();
    names.peek().is_none() || names.any(|arg| arg == name)
}

fn say(case: &str, method: &str, ns: f64) {
    let frame_pointers = stack_method() == StackMethod::FramePointers;
    println!(
        "{{\"case\":\"stack20_{case}\",\"method\":\"{method}\",\"frame_pointers\":{frame_pointers},\"ns\":{ns:.1}}}"
    );
}

/// Nanoseconds a run of the chain, with `end` at its end.
fn median(n_runs: u32, path: fn(u32) -> u32, end: &mut dyn FnMut()) -> f64 {
    let mut batches: Vec<f64> = (0..N_BATCHES)
        .map(|_| {
            let start = Instant::now();
            for i in 0..n_runs {
                black_box(chains::run(path(i), end));
            }
            start.elapsed().as_nanos() as f64 / f64::from(n_runs)
        })
        .collect();
    batches.sort_by(f64::total_cmp);
    batches[N_BATCHES / 2]
}
