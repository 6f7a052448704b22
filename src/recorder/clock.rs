//! Microseconds since the Unix epoch that never run backwards.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// The system's time at one moment, counted on by a monotonic clock: a step
/// of the system's time must not put events out of order.
#[derive(Debug)]
pub(super) struct Clock {
    start: Instant,
    start_us: u64,
}

impl Clock {
    pub(super) fn start() -> Clock {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Clock { start: Instant::now(), start_us: u64::try_from(since_epoch.as_micros()).unwrap_or(0) }
    }

    pub(super) fn now_us(&self) -> u64 {
        self.start_us + u64::try_from(self.start.elapsed().as_micros()).unwrap_or(0)
    }
}
