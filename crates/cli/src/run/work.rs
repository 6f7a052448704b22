//! Measures the processor time of work: on a busy machine it takes longer, but costs no more.

#![forbid(unsafe_code)]

use std::{
    fs,
    time::{Duration, Instant},
};

/// Work that this thread has started.
#[derive(Debug)]
pub(crate) struct Work {
    at: Instant,
    ran: Option<Duration>,
}

impl Work {
    pub(crate) fn begin() -> Work {
        Work { at: Instant::now(), ran: ran() }
    }

    /// Returns the time of a processor that this thread has had since, or the time since where that is not known.
    pub(crate) fn time(&self) -> Duration {
        let elapsed = self.at.elapsed();
        ran().zip(self.ran).map_or(elapsed, |(now, then)| now.saturating_sub(then).min(elapsed))
    }
}

/// Returns the time of a processor that this thread has had, of which the system keeps account to some milliseconds.
fn ran() -> Option<Duration> {
    let text = fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split_whitespace().next()?.parse().ok().map(Duration::from_nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sleep_is_no_work() {
        let work = Work::begin();
        std::thread::sleep(Duration::from_millis(200));
        if work.ran.is_some() {
            assert!(work.time() < Duration::from_millis(100), "{:?}", work.time());
        }
        let work = Work::begin();
        let until = Instant::now() + Duration::from_millis(200);
        while Instant::now() < until {}
        assert!(work.time() > Duration::from_millis(5), "{:?}", work.time());
    }
}
