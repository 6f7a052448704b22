//! What replays of the history up to a failed request say of it.

use super::{
    requests::Requests,
    run::{Conditions, Order, Run},
    step::Step,
};
use crate::{allocator::Settings, recorder::Recorder};
use memreel_snapshot::{
    analysis::{
        DeviceHistory,
        oom::{Explanation, Fit, OomReport, Served, Tried, TriedSetting},
    },
    words::Result,
};

/// The settings that are tried besides the recorded one, each of them added to it. All of them can be deployed: none
/// returns memory to the device in the middle of a step as long as there is room.
const SETTINGS: [&str; 6] = [
    "expandable_segments:True",
    "max_split_size_mb:64",
    "max_split_size_mb:128",
    "max_split_size_mb:256",
    "max_split_size_mb:512",
    "roundup_power2_divisions:8",
];

/// The most steps that are replayed under all settings together, which takes about half a second.
const MOST_STEPS: usize = 1 << 20;

/// Replays the history up to a failed request: with a higher limit, without what grew, and under other settings. If it
/// cannot be replayed, only `with_expandable` is known.
pub(super) fn tried(
    history: &DeviceHistory<'_>,
    explanation: &Explanation<'_, '_>,
    with_expandable: Fit,
) -> Tried {
    let report = explanation.report();
    let mut found = Tried::default();
    found.with_expandable = with_expandable;
    let Ok(requests) = Requests::new(history.snapshot(), history.device()) else { return found };
    let trial = Trial { requests: &requests, report, n_steps: steps_until(&requests, report.entry) };
    if trial.n_steps == 0 || trial.n_steps > MOST_STEPS {
        return found;
    }
    let recorded = requests.recorded().usable_conf().to_owned();
    let grown = explanation.growths().map(|growths| history.grown_blocks(growths, report.totals.moment));
    let without_growth = grown.and_then(|grown| trial.run(&recorded, 0, &grown).ok());
    found.needed_bytes = report.is_limited().then(|| trial.needed_bytes(&recorded)).flatten();
    found.without_growth = without_growth.map(|run| run.served);
    if trial.n_steps.saturating_mul(SETTINGS.len()) <= MOST_STEPS && !report.never_fits() {
        found.settings = settings(&trial, &recorded);
    }
    found
}

/// Returns the settings in the order of their merit.
fn settings(trial: &Trial<'_>, recorded: &str) -> Vec<TriedSetting> {
    let comma = if recorded.is_empty() { "" } else { "," };
    let added =
        SETTINGS.iter().filter(|setting| !recorded.contains(setting.split(':').next().unwrap_or_default()));
    let mut tried: Vec<TriedSetting> = added
        .filter_map(|setting| {
            let conf = format!("{recorded}{comma}{setting}");
            let run = trial.run(&conf, 0, &[]).ok()?;
            Some(TriedSetting::new(conf, run.served, run.reserved_bytes, run.num_device_calls))
        })
        .collect();
    tried.sort_by_key(|setting| (std::cmp::Reverse(setting.served), setting.num_device_calls));
    tried
}

fn steps_until(requests: &Requests, entry: usize) -> usize {
    requests.steps.partition_point(|step| step.entry() <= entry)
}

/// The requests until the failed one.
struct Trial<'a> {
    requests: &'a Requests,
    report: &'a OomReport,
    n_steps: usize,
}

/// The results of a trial.
struct Tested {
    served: Served,
    /// The most bytes that were reserved until the request was served once, or failed.
    reserved_bytes: u64,
    num_device_calls: u64,
}

impl Trial<'_> {
    /// Returns a limit that serves the request: the least of some, each of which is larger by twice as many segments.
    fn needed_bytes(&self, conf: &str) -> Option<u64> {
        let more = (0..8).map(|doubled| self.report.segment_bytes << doubled);
        let serves = |more: &u64| self.run(conf, *more, &[]).is_ok_and(|tested| tested.served.is_served());
        more.clone().find(serves).map(|more| self.report.could_hold_bytes().saturating_add(more))
    }

    /// Runs the requests under a setting, with `more_bytes` beside the memory that there was, and without the allocs of some
    /// entries. Then asks for the failed request as often as it is served.
    fn run(&self, conf: &str, more_bytes: u64, without: &[usize]) -> Result<Tested> {
        let settings: Settings = conf.parse()?;
        let could_hold = Some(self.report.could_hold_bytes().saturating_add(more_bytes));
        let (limit_bytes, device_bytes) = match self.report.is_limited() {
            true => (could_hold, None),
            false => (None, could_hold),
        };
        let conditions =
            Conditions { settings, limit_bytes, device_bytes, order: Order::Falling, switch: None };
        let recorder = Recorder::new();
        // On any thread: where the process's heap is recorded, a replay is not part of the program.
        let _own = recorder.own_work();
        let mut run = Run::start(self.requests, &conditions, &recorder)?;
        let mut served = Served::default();
        for step in &self.requests.steps[..self.n_steps] {
            let (is_last, n_failed) = (step.entry() == self.report.entry, run.n_failed());
            match step {
                Step::Alloc { request, .. } | Step::Fail { request } if is_last => {
                    served = Served::new(run.serve(request, Served::MOST)?);
                    break;
                }
                Step::Alloc { request, .. } if without.binary_search(&(request.entry as usize)).is_ok() => {}
                _ => run.step(step)?,
            }
            if matches!(step, Step::Alloc { .. }) && run.n_failed() > n_failed {
                break;
            }
        }
        let outcome = run.outcome();
        Ok(Tested {
            served,
            reserved_bytes: outcome.reserved_peak_bytes,
            num_device_calls: outcome.num_device_calls(),
        })
    }
}
