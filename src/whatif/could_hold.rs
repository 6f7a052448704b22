//! Determines how much memory the process of a recorded run could hold, as far as refused requests show it.

use serde::Serialize;

use super::bounds::Bounds;
use crate::allocator::Settings;
use memreel_snapshot::model::TraceEntry;

/// The bytes that the process of a recorded run could hold.
///
/// A request that failed shows the bytes that the device had free. A request that succeeded only after the allocator
/// had released its cache shows that its segment did not fit next to what was reserved.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[non_exhaustive]
pub struct CouldHold {
    /// The lower bound in bytes: what was reserved at the peak, or could have been when a request failed.
    pub at_least_bytes: u64,
    /// The upper bound in bytes.
    pub at_most_bytes: u64,
    /// Whether the device had room for a request that failed, so that the process had its own limit.
    pub is_limit: bool,
    /// The sum of what was reserved at such a failure and what the device had free: the device's size minus what other
    /// processes held. `None` if nothing shows it.
    pub device_bytes: Option<u64>,
}

impl CouldHold {
    /// Returns what is known from a request that failed while `reserved_bytes` were reserved.
    pub(super) fn of_failure(entry: &TraceEntry, reserved_bytes: u64, settings: &Settings) -> CouldHold {
        let (free_bytes, needed_bytes) = (entry.device_free_bytes(), settings.growth_bytes(entry.size));
        let is_limit = free_bytes >= needed_bytes;
        let (at_least, at_most) = match is_limit {
            true => (0, needed_bytes.saturating_sub(1)),
            false => (free_bytes, free_bytes),
        };
        CouldHold {
            at_least_bytes: reserved_bytes.saturating_add(at_least),
            at_most_bytes: reserved_bytes.saturating_add(at_most),
            is_limit,
            device_bytes: is_limit.then(|| reserved_bytes.saturating_add(free_bytes)),
        }
    }

    /// Returns what is known from a request that did not fit into more than `bytes` bytes, in addition to an earlier
    /// one.
    pub(super) fn at_most(bytes: u64, earlier: Option<CouldHold>) -> CouldHold {
        let unknown =
            CouldHold { at_least_bytes: 0, at_most_bytes: u64::MAX, is_limit: false, device_bytes: None };
        let earlier = earlier.unwrap_or(unknown);
        CouldHold { at_most_bytes: earlier.at_most_bytes.min(bytes), ..earlier }
    }

    /// Returns the same facts for a process that held `peak_bytes` at its peak.
    pub(super) fn with_peak(self, peak_bytes: u64) -> CouldHold {
        let at_least_bytes = self.at_least_bytes.max(peak_bytes);
        CouldHold { at_least_bytes, at_most_bytes: self.at_most_bytes.max(at_least_bytes), ..self }
    }

    /// Returns the bounds of a run with the lower bound of these bytes.
    #[must_use]
    pub fn bounds(&self) -> Bounds {
        let make = if self.is_limit { Bounds::Limit } else { Bounds::Device };
        make(self.at_least_bytes)
    }

    /// Returns whether a number of bytes is within the bounds.
    pub(super) fn allows(&self, bytes: u64) -> bool {
        (self.at_least_bytes..=self.at_most_bytes).contains(&bytes)
    }
}
