//! Measuring medians, and printing one result per line.

use std::time::Instant;

use memreel::integrate::{StackMethod, stack_method};

const N_BATCHES: usize = 31;

/// Prints one result per line, as a table or as JSON.
pub(crate) struct Reporter {
    is_json: bool,
    /// Whether this build's code keeps frame pointers.
    frame_pointers: bool,
}

impl Reporter {
    pub(crate) fn new() -> Reporter {
        let is_json = std::env::args().any(|argument| argument == "--json");
        // memreel chooses frame pointers exactly if the build keeps them; no other method is forced yet.
        Reporter { is_json, frame_pointers: stack_method() == StackMethod::FramePointers }
    }

    pub(crate) fn report(&self, case: &str, method: &str, ns: f64) {
        if self.is_json {
            println!(
                r#"{{"case":"{case}","method":"{method}","frame_pointers":{},"ns":{ns:.1}}}"#,
                self.frame_pointers
            );
        } else {
            println!("{case:<24} {method:<34} {ns:>12.1} ns");
        }
    }

    /// Prints the result of one run that handled `n` items.
    pub(crate) fn report_many(&self, case: &str, method: &str, n: usize, seconds: f64) {
        let per_second = n as f64 / seconds;
        if self.is_json {
            println!(
                r#"{{"case":"{case}","method":"{method}","frame_pointers":{},"n":{n},"ms":{:.3},"per_second":{per_second:.0}}}"#,
                self.frame_pointers,
                seconds * 1e3
            );
        } else {
            println!("{case:<24} {method:<34} {:>12.1} ms {:>10.2} M/s", seconds * 1e3, per_second / 1e6);
        }
    }
}

/// Nanoseconds per call in the median batch.
pub(crate) fn median_ns(n: u32, mut call: impl FnMut(u32)) -> f64 {
    median(N_BATCHES, || {
        let start = Instant::now();
        (0..n).for_each(&mut call);
        start.elapsed().as_secs_f64() * 1e9 / f64::from(n)
    })
}

/// The median of `n_batches` measurements.
pub(crate) fn median(n_batches: usize, mut measure: impl FnMut() -> f64) -> f64 {
    let mut batches: Vec<f64> = (0..n_batches).map(|_| measure()).collect();
    batches.sort_by(f64::total_cmp);
    batches[n_batches / 2]
}
