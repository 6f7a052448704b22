//! The steps of a rank: its outermost scopes, one after the other.

use serde::Serialize;

use crate::{
    analysis::DeviceHistory,
    history::{Moment, Scopes},
};

/// The most steps of a rank that are kept.
const MAX_STEPS: usize = 1000;

/// One of a rank's outermost scopes.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[non_exhaustive]
pub struct RankStep {
    /// The name of the scope; if several have the same name, each has its number, as in `step#3`.
    pub name: String,
    /// The moment before its first event.
    pub event: Moment,
    /// The time of its first event in microseconds.
    pub begin_us: i64,
    /// The most active bytes after its events.
    pub peak_bytes: u64,
}

/// Returns the first steps of a history, and the number of all.
pub(super) fn steps(history: &DeviceHistory<'_>, scopes: &Scopes<'_>) -> (Vec<RankStep>, usize) {
    let outer = scopes.steps();
    let n_steps = outer.len();
    let mut steps: Vec<RankStep> = Vec::with_capacity(n_steps.min(MAX_STEPS));
    let mut totals = history.totals().skip(1).enumerate().peekable();
    for span in outer.into_iter().take(MAX_STEPS) {
        let mut peak_bytes = 0;
        while let Some((entry, after)) = totals.next_if(|(entry, _)| *entry < span.entries.end) {
            if entry >= span.entries.start {
                peak_bytes = peak_bytes.max(after.active_bytes);
            }
        }
        let begin_us = history.entries().get(span.entries.start).map_or(0, |entry| entry.time_us);
        let event = span.entries.start.checked_sub(1).map_or(Moment::START, Moment::after);
        steps.push(RankStep { name: span.name, event, begin_us, peak_bytes });
    }
    (steps, n_steps)
}
