//! The baseline: the replay of the recorded setting, compared with the recorded run event by event.

use serde::Serialize;

use super::step::EntryIndex;
use memreel_snapshot::{
    history::{Confidence, change},
    model::TraceEntry,
};

/// How the replay of the recorded setting compares with the recorded run, event by event.
///
/// The replay starts with the recorded state, and the simulated device does what the recorded one did: it gives the
/// same addresses, and refuses what was refused. So any difference comes from a rule that the model lacks, or from an
/// event that the file lacks. Every answer of a replay is only as good as this comparison.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct Baseline {
    /// The most bytes that the recorded run reserved.
    pub recorded_peak_bytes: u64,
    /// The most bytes that the replay reserved.
    pub peak_bytes: u64,
    /// The bytes that the recorded run had reserved at the end.
    pub recorded_end_bytes: u64,
    /// The bytes that the replay had reserved at the end.
    pub end_bytes: u64,
    /// The largest difference in reserved bytes after an event: the replay's minus the recorded.
    pub deviation_bytes: i64,
    /// The trace entry after which the difference was largest; `None` if there was none.
    pub deviation_entry: Option<usize>,
    /// The number of requests that failed in one of the two and succeeded in the other.
    pub num_other_ooms: u64,
    /// The number of requests, frees and emptied caches after which the two were compared.
    pub num_compared: usize,
}

/// The recorded level of reserved memory after an entry that changed it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Level {
    pub(super) entry: EntryIndex,
    pub(super) reserved_bytes: u64,
}

/// Returns the levels of a trace that starts with `start_bytes`.
pub(super) fn levels(trace: &[TraceEntry], start_bytes: u64) -> Vec<Level> {
    let mut level = i128::from(start_bytes);
    let mut levels = Vec::new();
    for (entry, change) in (0..).zip(trace.iter().map(change)).filter(|(_, change)| *change != 0) {
        level = (level + change).max(0);
        levels.push(Level { entry, reserved_bytes: u64::try_from(level).unwrap_or(u64::MAX) });
    }
    levels
}

impl Baseline {
    /// Returns the largest difference in percent of the recorded peak; 100 for a file without segments, where there is
    /// nothing to compare with.
    #[must_use]
    #[allow(clippy::cast_precision_loss)]
    pub fn deviation_percent(&self) -> f64 {
        match (self.deviation_bytes, self.recorded_peak_bytes) {
            (0, _) => 0.0,
            (_, 0) => 100.0,
            (bytes, peak_bytes) => bytes as f64 * 100.0 / peak_bytes as f64,
        }
    }

    /// Returns whether the replay reserved the same bytes as the recorded run after every event, and at the peak, and
    /// the same requests failed.
    #[must_use]
    pub fn is_exact(&self) -> bool {
        self.worst_bytes() == 0 && self.num_other_ooms == 0
    }

    /// Rates the comparison by the largest difference, at an event or between the peaks. No difference is sure. Up to a
    /// hundredth of the recorded peak is high, because that much depends on the addresses that a driver gives. Up to a
    /// twentieth is fair, because a sweep treats peaks that are that close as equal; a comparison in which other
    /// requests failed is fair too. More is low, and so is a comparison of nothing.
    #[must_use]
    pub fn confidence(&self) -> Confidence {
        let worst_bytes = u128::from(self.worst_bytes());
        let is_within = |parts: u128| worst_bytes * parts <= u128::from(self.recorded_peak_bytes);
        match worst_bytes {
            _ if self.num_compared == 0 => Confidence::Low,
            _ if self.num_other_ooms > 0 && is_within(20) => Confidence::Fair,
            0 => Confidence::Sure,
            _ if is_within(100) => Confidence::High,
            _ if is_within(20) => Confidence::Fair,
            _ => Confidence::Low,
        }
    }

    fn worst_bytes(&self) -> u64 {
        self.deviation_bytes.unsigned_abs().max(self.peak_bytes.abs_diff(self.recorded_peak_bytes))
    }
}
