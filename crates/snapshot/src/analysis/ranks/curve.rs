//! The memory of a rank over time: the maximum in each stretch since its first event.

use serde::Serialize;

use crate::analysis::DeviceHistory;

/// The most stretches of a curve.
const MAX_STRETCHES: usize = 128;

/// The most active bytes in stretches of time of equal width, a power of two of microseconds.
///
/// The time is counted from the rank's own first event, because the clocks of machines disagree.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct ClockCurve {
    /// The width of a stretch.
    pub width_us: u64,
    /// The most active bytes of each stretch.
    pub peaks_bytes: Vec<u64>,
}

impl ClockCurve {
    /// Reads a history in one pass. A history without times has an empty curve.
    pub(super) fn new(history: &DeviceHistory<'_>) -> ClockCurve {
        let entries = history.entries();
        let Some(first_us) = entries.iter().map(|entry| entry.time_us).find(|time_us| *time_us != 0) else {
            return ClockCurve::default();
        };
        let mut curve = ClockCurve { width_us: 1, peaks_bytes: Vec::new() };
        let mut last_bytes = 0;
        for totals in history.totals() {
            let time_us = totals.moment.entry().map_or(first_us, |entry| entries[entry].time_us);
            let since_us = u64::try_from(time_us.saturating_sub(first_us)).unwrap_or(0);
            curve.add(since_us, last_bytes, totals.active_bytes);
            last_bytes = totals.active_bytes;
        }
        curve
    }

    fn add(&mut self, since_us: u64, before_bytes: u64, bytes: u64) {
        while since_us / self.width_us >= MAX_STRETCHES as u64 {
            self.widen();
        }
        let at = usize::try_from(since_us / self.width_us).unwrap_or(0);
        // In a stretch without events, nothing happens.
        let new_len = self.peaks_bytes.len().max(at + 1);
        self.peaks_bytes.resize(new_len, before_bytes);
        self.peaks_bytes[at] = self.peaks_bytes[at].max(bytes);
    }

    fn widen(&mut self) {
        self.width_us *= 2;
        self.peaks_bytes =
            self.peaks_bytes.chunks(2).map(|pair| pair.iter().copied().max().unwrap_or(0)).collect();
    }

    /// Returns the curve in stretches of a width that is not below its own.
    pub(super) fn widened(&self, width_us: u64) -> ClockCurve {
        let mut curve = self.clone();
        while curve.width_us > 0 && curve.width_us < width_us {
            curve.widen();
        }
        curve
    }
}
