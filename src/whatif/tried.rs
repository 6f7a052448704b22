//! Replays the history up to a failed request, and reports the results.

use super::{
    bounds::Bounds,
    requests::Requests,
    run::{Conditions, Order, Run},
    step::Step,
    sweep::grid,
};
use crate::{allocator::Settings, recorder::Recorder};
use memreel_snapshot::{
    analysis::{
        DeviceHistory,
        oom::{Explanation, Fit, OomReport, Served, Tried},
    },
    history::Confidence,
    words::Result,
};

/// The most steps that are replayed while a person waits: a few seconds on two cores.
pub(super) const MOST_STEPS: usize = 1 << 26;

/// The most steps for a program that waits at its failure: half a second.
pub(super) const FEW_STEPS: usize = 1 << 22;

/// Replays the history up to a failed request: with a higher limit, without what grew, and under other settings. If it
/// cannot be replayed, only `with_expandable` is known.
pub(super) fn tried(
    history: &DeviceHistory<'_>,
    requests: Option<&Requests>,
    explanation: &Explanation<'_, '_>,
    with_expandable: Fit,
    most_steps: usize,
) -> Tried {
    let report = explanation.report();
    let mut found = Tried::default();
    found.with_expandable = with_expandable;
    let Some(requests) = requests else { return found };
    let trial = Trial { requests, report, n_steps: steps_until(requests, report.entry) };
    // If the process held more earlier, what a failure shows about the room does not apply to the time before.
    let has_less_room = requests.recorded().reserved_peak_bytes > report.could_hold_at_most_bytes();
    let is_unknown = requests.confidence() == Confidence::Low || has_less_room;
    if trial.n_steps == 0 || trial.n_steps > most_steps || is_unknown {
        return found;
    }
    found.is_certain = matches!(requests.confidence(), Confidence::Sure | Confidence::High);
    let recorded = requests.recorded().usable_conf().to_owned();
    let grown = explanation.growths().map(|growths| history.grown_blocks(growths, report.totals.moment));
    let without_growth = grown.and_then(|grown| trial.run(&recorded, 0, &grown).ok());
    found.needed_bytes = report.is_limited().then(|| trial.needed_bytes(&recorded)).flatten();
    found.without_growth = without_growth;
    let n_runs = grid(requests.bounds().limit_bytes()).len() * 2;
    if report.pool.is_some()
        && !report.never_fits()
        && requests.n_steps().saturating_mul(n_runs) <= most_steps
    {
        found.settings = requests.tried_settings(report.entry).unwrap_or_default();
    }
    found
}

fn steps_until(requests: &Requests, entry: usize) -> usize {
    requests.steps.partition_point(|step| step.entry() <= entry)
}

/// The requests up to the failed one.
struct Trial<'a> {
    requests: &'a Requests,
    report: &'a OomReport,
    n_steps: usize,
}

impl Trial<'_> {
    /// Returns the lowest limit that satisfies the request, from a series in which each is larger by twice as many
    /// segments.
    fn needed_bytes(&self, conf: &str) -> Option<u64> {
        let more = (0..8).map(|doubled| self.report.segment_bytes << doubled);
        let serves = |more: &u64| self.run(conf, *more, &[]).is_ok_and(Served::is_served);
        more.clone().find(serves).map(|more| self.report.could_hold_bytes().saturating_add(more))
    }

    /// Runs the requests under a setting, with `more_bytes` added to the available memory, and without the `alloc`
    /// entries in `without`. Then repeats the failed request as long as it succeeds.
    fn run(&self, conf: &str, more_bytes: u64, without: &[usize]) -> Result<Served> {
        let settings: Settings = conf.parse()?;
        let bytes = self.report.could_hold_bytes().saturating_add(more_bytes);
        let bounds = if self.report.is_limited() { Bounds::Limit(bytes) } else { Bounds::Device(bytes) };
        let conditions = Conditions { settings, bounds, order: Order::Falling, switch: None };
        let recorder = Recorder::new();
        // On any thread: where the process's heap is recorded, a replay is not part of the program.
        let _own = recorder.own_work();
        let mut run = Run::start(self.requests, &conditions, &recorder)?;
        for step in &self.requests.steps[..self.n_steps] {
            let (is_last, n_failed) = (step.entry() == self.report.entry, run.n_failed());
            match step {
                Step::Alloc { request, .. } | Step::Fail { request } if is_last => {
                    return Ok(Served::new(run.serve(request, Served::MOST)?));
                }
                Step::Alloc { request, .. } if without.binary_search(&(request.entry as usize)).is_ok() => {}
                _ => run.step(step)?,
            }
            if matches!(step, Step::Alloc { .. }) && run.n_failed() > n_failed {
                break;
            }
        }
        Ok(Served::default())
    }
}
