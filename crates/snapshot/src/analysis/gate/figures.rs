//! The figures of a history that a gate compares with limits.

use serde::Serialize;

use crate::{analysis::DeviceHistory, history::Moment};

/// The figures of a device's history that a gate compares with limits.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
#[non_exhaustive]
pub struct Figures {
    /// The most bytes in use at any moment, those that wait for a stream included.
    pub peak_bytes: u64,
    /// The first moment of this peak; of one before the events, the first moment of theirs.
    pub peak: Moment,
    /// Whether this peak was before the events of the file ([`DeviceHistory::earlier_peak`]).
    pub is_peak_earlier: bool,
    /// The bytes that the program holds at the end.
    pub live_bytes: u64,
    /// The most bytes that are held from the device at any moment.
    pub reserved_bytes: u64,
    /// The first moment at which they are held.
    pub most_reserved: Moment,
    /// The percentage of these that is in no block at the first such moment. It is an upper bound,
    /// because only the least rounding of freed blocks is known.
    pub fragmentation_percent: f64,
}

impl DeviceHistory<'_> {
    /// Returns the figures of the history that a gate checks.
    #[must_use]
    #[allow(clippy::cast_precision_loss)]
    pub fn figures(&self) -> Figures {
        let (peak, earlier) = (self.peak(), self.earlier_peak());
        let most = self.highest(|totals| totals.reserved_bytes);
        Figures {
            peak_bytes: earlier.map_or(peak.active_bytes, |earlier| earlier.bytes),
            peak: peak.moment,
            is_peak_earlier: earlier.is_some(),
            live_bytes: self.totals_at(self.end()).allocated_bytes,
            reserved_bytes: most.reserved_bytes,
            most_reserved: most.moment,
            fragmentation_percent: most.unused_bytes() as f64 / most.reserved_bytes.max(1) as f64 * 100.0,
        }
    }
}
