//! A point in time, as a question names it.

use memreel_snapshot::{DeviceId, Snapshot};

/// A point in time.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Instant {
    /// Microseconds after the first event.
    After(i64),
    /// Microseconds since the Unix epoch.
    Since1970(i64),
}

impl Instant {
    /// Returns the time in microseconds since the Unix epoch, given that of the first event.
    #[must_use]
    pub fn time_us(self, first_us: i64) -> i64 {
        match self {
            Instant::After(after_us) => first_us.saturating_add(after_us),
            Instant::Since1970(time_us) => time_us,
        }
    }

    /// Returns the time in microseconds since the Unix epoch, in a snapshot whose first event with a time, on any
    /// device, is the origin.
    pub(crate) fn in_snapshot(self, snapshot: &Snapshot) -> i64 {
        let first_us = DeviceId::first(snapshot.device_traces.len())
            .filter_map(|device| {
                snapshot.trace(device).iter().map(|entry| entry.time_us).find(|time| *time != 0)
            })
            .min();
        self.time_us(first_us.unwrap_or(0))
    }
}
