//! Whether a trace is in the order of its times (snapshot-format.md 2.5).

use crate::snapshot::TraceEntry;

/// Clocks of several processors may differ by so much.
pub(super) const JITTER_US: i64 = 1000;

/// The first entry that is earlier than the one before it, and by how much.
pub(super) fn runs_back(trace: &[TraceEntry]) -> Option<(usize, i64)> {
    let back = |i: usize| trace[i - 1].time_us.saturating_sub(trace[i].time_us);
    let first = (1..trace.len()).find(|i| back(*i) > 0)?;
    let most = (first..trace.len()).map(back).max().unwrap_or(0);
    let entry = if most > JITTER_US { (first..trace.len()).find(|i| back(*i) > JITTER_US)? } else { first };
    Some((entry, back(entry)))
}
