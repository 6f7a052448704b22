//! Limits for tests and builds: peaks, what stays live, waste, against figures or an older snapshot.
//!
//! Everything counts in events and bytes, never in time, so that a slow
//! machine passes where a fast one does.

use std::fmt::Write;

use super::{
    frames::{ShownFrames, base_name},
    state::{DeviceHistory, devices},
    top::{By, Site},
};
use crate::{history::Moment, snapshot::Snapshot};

/// What a device's history is held against.
#[derive(Clone, Copy, PartialEq, Debug)]
#[non_exhaustive]
pub struct Figures {
    /// The most bytes in use at any moment, those that wait for a stream included.
    pub peak_bytes: u64,
    /// The first moment of that.
    pub peak: Moment,
    /// What the program holds at the end.
    pub live_bytes: u64,
    /// The most bytes held from the device at any moment.
    pub reserved_bytes: u64,
    /// Of these, percent in no block, at the first moment of that; at most, because the rounding of
    /// blocks that are gone is known at least.
    pub fragmentation_percent: f64,
}

impl DeviceHistory<'_> {
    /// Returns the figures of the history that a gate checks.
    #[must_use]
    #[allow(clippy::cast_precision_loss)]
    pub fn figures(&self) -> Figures {
        let (peak, at_peak) = self.peak();
        let (_, most) = self.highest(|totals| totals.reserved_bytes);
        Figures {
            peak_bytes: at_peak.active_bytes,
            peak,
            live_bytes: self.totals_at(self.end()).allocated_bytes,
            reserved_bytes: most.reserved_bytes,
            fragmentation_percent: most.unused_bytes() as f64 / most.reserved_bytes.max(1) as f64 * 100.0,
        }
    }
}

/// The most that is allowed; `None` allows everything.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Limits {
    /// Of [`Figures::peak_bytes`].
    pub peak_bytes: Option<u64>,
    /// Of [`Figures::live_bytes`].
    pub live_bytes: Option<u64>,
    /// Of [`Figures::reserved_bytes`].
    pub reserved_bytes: Option<u64>,
    /// Of [`Figures::fragmentation_percent`].
    pub fragmentation_percent: Option<f64>,
}

/// One figure held against one limit.
#[derive(Clone, Copy, PartialEq, Debug)]
#[non_exhaustive]
pub struct Check {
    /// What it is called: `peak`, `live`, `reserved` or `fragmentation`.
    pub what: &'static str,
    /// The figure: bytes, or percent.
    pub actual: Measure,
    /// The most that is allowed.
    pub most: Measure,
    /// Whether the limit comes from an older snapshot.
    pub is_baseline: bool,
}

/// A figure with its unit.
#[derive(Clone, Copy, PartialEq, PartialOrd, Debug)]
#[non_exhaustive]
pub enum Measure {
    /// Bytes.
    Bytes(u64),
    /// Hundredths.
    Percent(f64),
}

impl Check {
    /// Whether the figure is within its limit.
    #[must_use]
    pub fn is_passed(&self) -> bool {
        self.actual <= self.most
    }
}

impl Figures {
    /// Compares the figures with limits, in the order of [`Limits`].
    #[must_use]
    pub fn check(&self, limits: &Limits) -> Vec<Check> {
        let bytes = |what, actual, most: Option<u64>| {
            most.map(|most| Check {
                what,
                actual: Measure::Bytes(actual),
                most: Measure::Bytes(most),
                is_baseline: false,
            })
        };
        let percent = limits.fragmentation_percent.map(|most| Check {
            what: "fragmentation",
            actual: Measure::Percent(self.fragmentation_percent),
            most: Measure::Percent(most),
            is_baseline: false,
        });
        let all = [
            bytes("peak", self.peak_bytes, limits.peak_bytes),
            bytes("live", self.live_bytes, limits.live_bytes),
            bytes("reserved", self.reserved_bytes, limits.reserved_bytes),
            percent,
        ];
        all.into_iter().flatten().collect()
    }

    /// Compares peak, live and reserved bytes with those of an older snapshot, which they may exceed by
    /// `tolerance_percent`.
    #[must_use]
    pub fn check_baseline(&self, baseline: &Figures, tolerance_percent: f64) -> Vec<Check> {
        #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let most = |bytes: u64| {
            Some(bytes.saturating_add((bytes as f64 * tolerance_percent.max(0.0) / 100.0) as u64))
        };
        let limits = Limits {
            peak_bytes: most(baseline.peak_bytes),
            live_bytes: most(baseline.live_bytes),
            reserved_bytes: most(baseline.reserved_bytes),
            fragmentation_percent: None,
        };
        self.check(&limits).into_iter().map(|check| Check { is_baseline: true, ..check }).collect()
    }
}

/// Why a snapshot is over a limit of its devices' peaks, with the biggest stacks; `None` if it is not.
/// [`assert_peak!`](crate::assert_peak) asks it.
#[must_use]
pub fn over_peak(snapshot: &Snapshot, most_bytes: u64) -> Option<String> {
    histories(snapshot).find_map(|history| {
        let figures = history.figures();
        let is_over = figures.peak_bytes > most_bytes;
        is_over.then(|| told(&history, "peak", figures.peak_bytes, most_bytes, figures.peak))
    })
}

/// Why a snapshot holds more at the end than a limit, with the biggest stacks; `None` if it does not.
/// [`assert_live!`](crate::assert_live) asks it.
#[must_use]
pub fn over_live(snapshot: &Snapshot, most_bytes: u64) -> Option<String> {
    histories(snapshot).find_map(|history| {
        let live_bytes = history.totals_at(history.end()).allocated_bytes;
        (live_bytes > most_bytes)
            .then(|| told(&history, "live at the end", live_bytes, most_bytes, history.end()))
    })
}

fn histories(snapshot: &Snapshot) -> impl Iterator<Item = DeviceHistory<'_>> {
    devices(snapshot).into_iter().map(|device| DeviceHistory::new(snapshot, device))
}

fn told(history: &DeviceHistory<'_>, what: &str, actual: u64, most: u64, moment: Moment) -> String {
    let shown = ShownFrames::new(history.snapshot());
    let mut text = format!("{what}: {actual} bytes on device {}, more than {most}", history.device());
    for group in history.top(moment, By::Stack).iter().take(3) {
        let _ = write!(text, "\n  {} bytes in {} blocks", group.bytes, group.n_blocks);
        let Site::Stack(stack) = group.site else { continue };
        for frame in shown.frames(stack).take(4) {
            let _ = write!(text, "\n    {} ({}:{})", frame.name, base_name(&frame.filename), frame.line);
        }
    }
    text
}

/// Fails a test if a snapshot's peak is over a number of bytes, and names the biggest stacks.
///
/// The peak is the most bytes in use at any moment of the recorded history, on each device.
///
/// ```
/// use memreel::{Reel, recorder::History};
///
/// let reel = Reel::builder().history(History::all()).build()?;
/// drop((reel.alloc(1000)?, reel.alloc(2000)?));
/// memreel::assert_peak!(reel.snapshot(), 3000);
/// # Ok::<(), memreel::Error>(())
/// ```
#[macro_export]
macro_rules! assert_peak {
    ($snapshot:expr, $most_bytes:expr $(,)?) => {
        if let ::std::option::Option::Some(why) = $crate::analysis::over_peak(&$snapshot, $most_bytes) {
            ::std::panic!("{why}");
        }
    };
}

/// Fails a test if a snapshot holds more than a number of bytes at its end, and names the biggest stacks.
///
/// ```
/// use memreel::{Reel, recorder::History};
///
/// let reel = Reel::builder().history(History::all()).build()?;
/// drop(reel.alloc(1000)?);
/// memreel::assert_live!(reel.snapshot(), 0);
/// # Ok::<(), memreel::Error>(())
/// ```
#[macro_export]
macro_rules! assert_live {
    ($snapshot:expr, $most_bytes:expr $(,)?) => {
        if let ::std::option::Option::Some(why) = $crate::analysis::over_live(&$snapshot, $most_bytes) {
            ::std::panic!("{why}");
        }
    };
}
