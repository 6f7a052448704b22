//! Ticks of the processor's counter now, microseconds since the Unix epoch later.
//!
//! Reading the counter takes a third of what the system's clock takes; what a
//! tick is worth is found out when somebody wants to know.

use crate::sync;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// A moment, in ticks since the recorder was made.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(crate) struct Ticks(pub(crate) u64);

/// Under this, the two readings of a moment are not near enough to each other
/// to tell a tick's worth better than quanta's calibration does.
const CALIBRATED_NS: u64 = 10_000_000;

/// Counts on from the system's time at one moment: a step of the system's
/// time must not put events out of order.
#[derive(Debug)]
pub(super) struct Clock {
    counter: quanta::Clock,
    /// What quanta found good to read is the processor's counter: so it is read here, without a call.
    is_inline: bool,
    /// A slow counter's ticks are given out as so many bits more: a thread's events each have a tick
    /// of their own, and a thread that is faster than its ticks must not run ahead of the others.
    shift: u32,
    start_raw: u64,
    start: Instant,
    start_us: u64,
}

impl Clock {
    pub(super) fn start() -> Clock {
        let counter = quanta::Clock::new();
        let start_raw = counter.raw();
        let ns_of_a_million = counter.delta_as_nanos(start_raw, start_raw.saturating_add(1_000_000));
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Clock {
            is_inline: (0..3).any(|_| reads_the_counter(&counter)),
            // 24 MHz becomes 1.5 GHz.
            shift: (ns_of_a_million / 1_000_000).checked_ilog2().map_or(0, |shift| shift + 1),
            start_raw,
            start: Instant::now(),
            start_us: u64::try_from(since_epoch.as_micros()).unwrap_or(0),
            counter,
        }
    }

    #[inline(always)]
    pub(super) fn now(&self) -> Ticks {
        if self.is_inline { self.ticks(sync::counter()) } else { self.now_by_call() }
    }

    /// As [`Clock::now`], after every load before has its value.
    #[inline(always)]
    pub(super) fn now_after_loads(&self) -> Ticks {
        if self.is_inline {
            return self.ticks(sync::counter_after_loads());
        }
        sync::settle_loads();
        self.now_by_call()
    }

    #[inline(never)]
    fn now_by_call(&self) -> Ticks {
        Ticks(self.ticks(self.counter.raw()).0 << self.shift)
    }

    #[inline(always)]
    fn ticks(&self, raw: u64) -> Ticks {
        Ticks(raw.saturating_sub(self.start_raw))
    }

    /// What ticks are worth, as far as it can be known now.
    pub(super) fn scale(&self) -> Scale {
        let ticks = self.now().0;
        let elapsed_ns = u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let raw_ticks = if self.is_inline { ticks } else { ticks >> self.shift };
        let calibrated_ns = self.counter.delta_as_nanos(self.start_raw, self.start_raw + raw_ticks);
        let ns = if elapsed_ns < CALIBRATED_NS { calibrated_ns } else { elapsed_ns };
        Scale::new(self.start_us, ns, ticks.max(1))
    }
}

/// No other clock of 64 bits shows the number that the counter has at this moment.
fn reads_the_counter(clock: &quanta::Clock) -> bool {
    let (before, read, after) = (sync::counter(), clock.raw(), sync::counter());
    before < read && read < after
}

/// Turns ticks into microseconds since the epoch, in order.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scale {
    start_us: u64,
    /// 2^-64 of a microsecond in a tick: a division a snapshot, a product an event.
    us_a_tick: u128,
}

impl Scale {
    /// That many nanoseconds are that many ticks.
    fn new(start_us: u64, ns: u64, ticks: u64) -> Scale {
        Scale { start_us, us_a_tick: (u128::from(ns) << 64).div_ceil(u128::from(ticks) * 1000) }
    }

    pub(crate) fn micros(self, at: Ticks) -> u64 {
        let us = u128::from(at.0).saturating_mul(self.us_a_tick) >> 64;
        self.start_us.saturating_add(u64::try_from(us).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scale_is_right_and_keeps_the_order() {
        let scale = Scale::new(1_000_000, 3_000_000_000, 12_000_000_000);
        assert_eq!(scale.micros(Ticks(0)), 1_000_000);
        assert_eq!(scale.micros(Ticks(4_000_000)), 1_001_000, "4 GHz");
        let years = u64::MAX >> 4;
        assert!(scale.micros(Ticks(years)).abs_diff(1_000_000 + years / 4000) < 2);
        let clock = Clock::start();
        let (early, before) = (clock.now(), Instant::now());
        while before.elapsed().as_millis() < 30 {}
        let (late, after_us) = (clock.now(), u64::try_from(before.elapsed().as_micros()).unwrap());
        let apart_us = clock.scale().micros(late) - clock.scale().micros(early);
        assert!(apart_us <= after_us + 100, "{apart_us} in {after_us}");
        assert!(apart_us > 29_000, "{apart_us} us of 30 ms");
    }
}
