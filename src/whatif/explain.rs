//! Explains why a request failed, using replays of the history up to it.

use super::{
    Capacity, Requests,
    tried::{FEW_STEPS, MOST_STEPS, tried},
};
use memreel_snapshot::analysis::{
    DeviceHistory,
    oom::{Explanation, Fit, OomReport},
};

/// Explains a report of this history ([`DeviceHistory::oom`]). If the history can be replayed, replays show what would
/// have helped. That takes at most a few seconds.
#[must_use]
pub fn explain<'h, 'a>(history: &'h DeviceHistory<'a>, report: OomReport) -> Explanation<'h, 'a> {
    explained(history, report, MOST_STEPS)
}

/// Explains a report to a program that waits at its failure: takes at most half a second. Otherwise like [`explain`].
pub(crate) fn explain_briefly<'h, 'a>(
    history: &'h DeviceHistory<'a>,
    report: OomReport,
) -> Explanation<'h, 'a> {
    explained(history, report, FEW_STEPS)
}

fn explained<'h, 'a>(
    history: &'h DeviceHistory<'a>,
    report: OomReport,
    most_steps: usize,
) -> Explanation<'h, 'a> {
    if report.reserved_address_bytes.is_some() {
        return Explanation::new(history, report);
    }
    // A history that cannot be replayed shows nothing.
    let requests = Requests::new(history.snapshot(), history.device()).ok();
    let with_expandable = with_expandable(history, requests.as_ref(), &report);
    let explanation = Explanation::new(history, report);
    let tried = tried(history, requests.as_ref(), &explanation, with_expandable, most_steps);
    explanation.with_tried(tried)
}

/// Returns whether a failed request would have succeeded with expandable segments.
fn with_expandable(history: &DeviceHistory<'_>, requests: Option<&Requests>, report: &OomReport) -> Fit {
    if report.is_expandable || report.never_fits() {
        return Fit::No;
    }
    if !history.trust().is_whole() || report.pool.is_none() {
        return Fit::Perhaps;
    }
    let asked = requests.and_then(|requests| {
        let recorded = requests.recorded().usable_conf();
        let comma = if recorded.is_empty() { "" } else { "," };
        let conf = format!("{recorded}{comma}expandable_segments:True");
        requests.fit(report.entry, &conf, &capacity(report)).ok()
    });
    asked.unwrap_or(Fit::Perhaps)
}

/// Returns the bytes that the process could hold when the request failed.
fn capacity(report: &OomReport) -> Capacity {
    if report.is_limited() {
        Capacity::Limit(report.could_hold_bytes()..=report.could_hold_at_most_bytes())
    } else {
        Capacity::Device(report.could_hold_bytes())
    }
}
