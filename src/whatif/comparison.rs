//! Runs the recorded setting on a device that does what the recorded one did, and compares the reserved bytes.

use super::{
    baseline::{Baseline, Level},
    bounds::Bounds,
    requests::Requests,
    run::{Conditions, Order, Outcome, Run},
    step::Step,
};
use crate::recorder::Recorder;
use memreel_snapshot::{history::Confidence, words::Result};

impl Requests {
    /// Returns how the replay of the recorded setting compares with the recorded run. It is computed at the first call,
    /// which takes one run.
    #[must_use]
    pub fn baseline(&self) -> &Baseline {
        self.baseline.get_or_init(|| compared(self))
    }

    /// Returns how far answers can be trusted: how well the baseline repeats the recorded run. Answers about a
    /// [changed](Requests::changed) program are at most fair.
    #[must_use]
    pub fn confidence(&self) -> Confidence {
        let of_baseline = self.baseline().confidence();
        if self.is_changed { of_baseline.max(Confidence::Fair) } else { of_baseline }
    }
}

/// Runs the requests under the recorded setting and compares the results.
fn compared(requests: &Requests) -> Baseline {
    let recorded = requests.recorded();
    let mut compared = Comparison {
        levels: &requests.levels,
        recorded_bytes: recorded.start_bytes,
        baseline: Baseline {
            recorded_peak_bytes: recorded.reserved_peak_bytes,
            peak_bytes: 0,
            recorded_end_bytes: requests
                .levels
                .last()
                .map_or(recorded.start_bytes, |level| level.reserved_bytes),
            end_bytes: 0,
            deviation_bytes: 0,
            deviation_entry: None,
            num_other_ooms: 0,
            num_compared: requests.steps.len(),
        },
    };
    // A run that cannot continue reserves nothing.
    let peak_bytes = compared.run(requests).map_or(0, |outcome| outcome.reserved_peak_bytes);
    // The levels before the first step are recorded.
    let before = requests.levels.iter().take_while(|level| (level.entry as usize) < requests.first_entry);
    let before_bytes = before.map(|level| level.reserved_bytes).fold(recorded.start_bytes, u64::max);
    compared.baseline.peak_bytes = peak_bytes.max(if requests.first_entry > 0 { before_bytes } else { 0 });
    compared.baseline
}

/// A comparison in progress.
struct Comparison<'a> {
    /// The remaining levels.
    levels: &'a [Level],
    recorded_bytes: u64,
    baseline: Baseline,
}

impl Comparison<'_> {
    fn run(&mut self, requests: &Requests) -> Result<Outcome> {
        let settings = requests.recorded().settings.clone();
        let order = Order::Recorded;
        let conditions = Conditions { settings, bounds: Bounds::Ample, order, switch: None };
        let mut run = Run::start(requests, &conditions, &Recorder::new())?;
        for step in &requests.steps {
            let n_failed = run.n_failed();
            run.step(step)?;
            let is_other = (run.n_failed() > n_failed) != matches!(step, Step::Fail { .. });
            self.baseline.num_other_ooms += u64::from(is_other);
            // An emptied cache ends with its last release, but has the number of its first.
            if !matches!(step, Step::EmptyCache { .. }) {
                self.compare(step.entry(), &run);
            }
        }
        if let Some(last) = self.levels.last() {
            self.compare(last.entry as usize, &run);
        }
        self.baseline.end_bytes = run.held_bytes().reserved_bytes;
        Ok(run.outcome())
    }

    fn compare(&mut self, entry: usize, run: &Run<'_>) {
        while let Some((level, rest)) = self.levels.split_first()
            && level.entry as usize <= entry
        {
            (self.recorded_bytes, self.levels) = (level.reserved_bytes, rest);
        }
        let deviation = i128::from(run.held_bytes().reserved_bytes) - i128::from(self.recorded_bytes);
        let deviation_bytes = i64::try_from(deviation).unwrap_or(i64::MAX);
        if deviation_bytes.unsigned_abs() > self.baseline.deviation_bytes.unsigned_abs() {
            self.baseline.deviation_bytes = deviation_bytes;
            self.baseline.deviation_entry = Some(entry);
        }
    }
}
