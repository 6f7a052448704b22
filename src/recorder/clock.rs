//! Timestamps: ticks of the processor's counter, converted to microseconds since the Unix epoch on request.
//!
//! Reading the counter takes a third of the time of reading the system's clock. The length of a tick is
//! measured when a snapshot is taken, not when an event is recorded.
#![forbid(unsafe_code)]

use crate::process::{
    counter::{self, counter, counter_after_loads},
    environment,
};
use memreel_lockfree::ticks;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

pub(crate) use memreel_lockfree::ticks::Ticks;

/// Below this elapsed time, quanta's calibration of a tick is more precise than dividing the elapsed time
/// by the elapsed ticks, because the clock and the counter are not read at exactly the same instant.
pub(crate) const CALIBRATED_NS: u64 = 10_000_000;

/// A monotonic clock that starts at the system's time and then follows the counter alone, so that a step
/// of the system's time does not reorder events.
#[derive(Debug)]
pub(crate) struct Clock {
    counter: Counter,
    /// Whether the counter is the processor's; if so, it is read inline here, without a call.
    is_inline: bool,
    /// Ticks of a slow counter are shifted left by this many bits. Every event of a thread gets a tick of
    /// its own, so a thread that records faster than the counter ticks would otherwise run ahead of others.
    shift: u32,
    start_raw: u64,
    start: Instant,
    start_us: u64,
}

/// The variable by which `memreel record` passes on how many nanoseconds 2^30 ticks of the counter take.
pub const TICK: &str = "MEMREEL_TICK";

/// What reads the counter, and how long its ticks are.
#[derive(Debug)]
enum Counter {
    /// The processor's, measured by another process of this machine: the nanoseconds of 2^30 ticks. A wrong value, such as
    /// one from another host, misplaces events only in recordings shorter than [`CALIBRATED_NS`].
    Measured(u64),
    /// quanta takes 3 ms to measure a tick, which is longer than a short program runs.
    Calibrated(quanta::Clock),
}

impl Counter {
    fn new() -> Counter {
        // From 10 GHz down to 10 MHz.
        let measured = environment::text(TICK).ok().and_then(|text| text.parse().ok());
        match measured.filter(|ns| (100_000_000..=107_374_182_400).contains(ns) && counter() != 0) {
            Some(ns) => Counter::Measured(ns),
            None => Counter::Calibrated(quanta::Clock::new()),
        }
    }

    fn raw(&self) -> u64 {
        match self {
            Counter::Measured(_) => counter(),
            Counter::Calibrated(clock) => clock.raw(),
        }
    }

    fn nanoseconds(&self, ticks: u64) -> u64 {
        match self {
            Counter::Measured(ns) => {
                u64::try_from((u128::from(ticks) * u128::from(*ns)) >> 30).unwrap_or(u64::MAX)
            }
            Counter::Calibrated(clock) => clock.delta_as_nanos(0, ticks),
        }
    }
}

/// Returns what [`TICK`] should have for programs that this process starts: the nanoseconds of 2^30 ticks; `None` if the
/// processor's counter cannot be used.
///
/// ```
/// if let Some(ns) = memreel::integrate::tick() {
///     assert!(ns > 100_000_000, "no counter runs faster than 10 GHz");
/// }
/// ```
#[must_use]
pub fn tick() -> Option<u64> {
    let clock = Clock::start();
    clock.is_inline.then(|| clock.counter.nanoseconds(1 << 30))
}

impl Clock {
    pub(crate) fn start() -> Clock {
        let counter = Counter::new();
        let (start_raw, (now, start)) = at_once(|| counter.raw(), || (SystemTime::now(), Instant::now()));
        let ns_of_a_million = counter.nanoseconds(1_000_000);
        let since_epoch = now.duration_since(UNIX_EPOCH).unwrap_or_default();
        Clock {
            is_inline: (0..3).any(|_| reads_the_counter(&counter)),
            // A counter of 24 MHz becomes one of 1.5 GHz.
            shift: (ns_of_a_million / 1_000_000).checked_ilog2().map_or(0, |shift| shift + 1),
            start_raw,
            start,
            start_us: u64::try_from(since_epoch.as_micros()).unwrap_or(0),
            counter,
        }
    }

    #[inline(always)]
    pub(crate) fn now(&self) -> Ticks {
        if self.is_inline { self.inline_ticks(counter()) } else { self.now_by_call() }
    }

    /// Returns the current time, read after all earlier loads have completed. Otherwise like [`Clock::now`].
    #[inline(always)]
    pub(super) fn now_after_loads(&self) -> Ticks {
        if self.is_inline {
            return self.inline_ticks(counter_after_loads());
        }
        counter::settle_loads();
        self.now_by_call()
    }

    #[inline(never)]
    fn now_by_call(&self) -> Ticks {
        Ticks(self.ticks(self.counter.raw()).0 << self.shift)
    }

    #[inline(always)]
    fn inline_ticks(&self, raw: u64) -> Ticks {
        if counter::MAY_BE_SLOW { Ticks(self.ticks(raw).0 << self.shift) } else { self.ticks(raw) }
    }

    /// The shift of a counter that is read inline: none where every counter is fast.
    fn inline_shift(&self) -> u32 {
        if counter::MAY_BE_SLOW { self.shift } else { 0 }
    }

    #[inline(always)]
    fn ticks(&self, raw: u64) -> Ticks {
        Ticks(raw.saturating_sub(self.start_raw))
    }

    /// Returns the present ticks, and the nanoseconds from tick 0 to now.
    pub(super) fn pair(&self) -> (u64, u64) {
        let (ticks, elapsed) = at_once(|| self.now().0, || self.start.elapsed());
        (ticks, u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX))
    }

    /// Returns the time of tick 0 in microseconds, and how many nanoseconds 2^30 ticks take by the counter's own
    /// calibration.
    pub(super) fn beginning(&self) -> (u64, u64) {
        let shift = if self.is_inline { self.inline_shift() } else { self.shift };
        (self.start_us, self.counter.nanoseconds(1 << 30 >> shift))
    }

    /// Measures the length of a tick from the time elapsed so far.
    pub(super) fn scale(&self) -> Scale {
        let (ticks, elapsed) = at_once(|| self.now().0, || self.start.elapsed());
        let elapsed_ns = u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX);
        let raw_ticks = ticks >> if self.is_inline { self.inline_shift() } else { self.shift };
        let ns = if elapsed_ns < CALIBRATED_NS { self.counter.nanoseconds(raw_ticks) } else { elapsed_ns };
        Scale::new(self.start_us, ns, ticks)
    }
}

impl ticks::Clock for Clock {
    #[inline(always)]
    fn now(&self) -> Ticks {
        Clock::now(self)
    }

    #[inline(always)]
    fn now_after_loads(&self) -> Ticks {
        Clock::now_after_loads(self)
    }
}

/// Returns what a counter and a clock read at the same instant: of a few tries the one that took the least time, because
/// another thread may get the processor between the two.
fn at_once<T>(counter: impl Fn() -> u64, clock: impl Fn() -> T) -> (u64, T) {
    let read = || {
        let before = counter();
        let read = clock();
        (counter().saturating_sub(before), (before, read))
    };
    let (mut least, mut best) = read();
    for _ in 0..4 {
        let (took, read) = read();
        if took < least {
            (least, best) = (took, read);
        }
    }
    best
}

/// Returns whether a counter is the processor's: its value is between two reads of that.
fn reads_the_counter(clock: &Counter) -> bool {
    // A slow counter may have the same value three times.
    let (before, read, after) = (counter(), clock.raw(), counter());
    before <= read && read <= after
}

/// Converts ticks to microseconds since the Unix epoch; the conversion is monotonic.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scale {
    start_us: u64,
    /// Microseconds in a tick, as a fixed-point number with 64 fractional bits: one division for a snapshot,
    /// one multiplication for an event.
    us_a_tick: u128,
}

impl Scale {
    /// Creates the scale on which `ticks` ticks took `ns` nanoseconds.
    pub(crate) fn new(start_us: u64, ns: u64, ticks: u64) -> Scale {
        let ticks = ticks.max(1);
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
    fn a_measured_tick_is_that_of_the_calibration() {
        let Some(ns) = tick() else { return };
        let (measured, calibrated) = (Counter::Measured(ns), Counter::new());
        for ticks in [0, 1, 1000, 1 << 20, 1 << 40] {
            let (one, other) = (measured.nanoseconds(ticks), calibrated.nanoseconds(ticks));
            assert!(one.abs_diff(other) <= 1 + other / 10_000, "{ticks}: {one} {other}");
        }
        assert_eq!(Counter::Measured(1 << 30).nanoseconds(u64::MAX), u64::MAX);
    }

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
