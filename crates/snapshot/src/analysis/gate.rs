//! Limits for tests and builds: the peak, the live bytes, the reserved bytes and the fragmentation, compared with given
//! values or with an older snapshot.
//!
//! The figures count events and bytes and never time, so that they are the same on a slow machine.

use std::{
    borrow::Cow,
    fmt::{self, Write},
};

use serde::Serialize;

use crate::{
    analysis::{By, DeviceHistory, EarlierPeak, Histories, Site, devices},
    history::Moment,
    model::Snapshot,
    words::{DeviceId, paths::base_name},
};

/// The figures of a device's history that a gate compares with limits.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
#[non_exhaustive]
pub struct Figures {
    /// The most bytes in use at any moment, including those that wait for a stream.
    pub peak_bytes: u64,
    /// The first moment of this peak; for a peak before the events, the first moment of their own peak.
    pub peak: Moment,
    /// Whether this peak was before the events of the file ([`DeviceHistory::earlier_peak`]).
    pub is_peak_earlier: bool,
    /// The bytes that the program holds at the end.
    pub live_bytes: u64,
    /// The most bytes that are held from the device at any moment.
    pub reserved_bytes: u64,
    /// The first moment at which they are held.
    pub most_reserved: Moment,
    /// The percentage of these that is in no block at the first such moment. It is an upper bound, because only the
    /// minimum rounding of freed blocks is known.
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

/// The highest figures that a gate allows; `None` allows any value.
///
/// ```
/// use memreel::{Reel, analysis::Limits, recorder::Recording};
///
/// let reel = Reel::builder().history(Recording::all()).build()?;
/// drop(reel.alloc(1000)?);
/// let limits = Limits::new().peak_bytes(1000).fragmentation_percent(20.0);
/// let why = limits.broken_by(&reel.snapshot()).expect("most of its segment is unused");
/// assert!(why.starts_with("fragmentation: 100.0 % on device 0, more than 20.0 %"), "{why}");
/// # Ok::<(), memreel::Error>(())
/// ```
#[derive(Clone, PartialEq, Debug, Default)]
#[must_use = "limits do nothing until figures are checked"]
pub struct Limits {
    peak_bytes: Option<u64>,
    live_bytes: Option<u64>,
    reserved_bytes: Option<u64>,
    fragmentation_percent: Option<f64>,
    owners_bytes: Vec<(String, u64)>,
    scopes_bytes: Vec<(String, u64)>,
    allows_partial: bool,
}

impl Limits {
    /// Creates limits that allow everything.
    pub fn new() -> Limits {
        Limits::default()
    }

    /// Sets the highest [`Figures::peak_bytes`].
    pub fn peak_bytes(mut self, most: impl Into<Option<u64>>) -> Self {
        self.peak_bytes = most.into();
        self
    }

    /// Sets the highest [`Figures::live_bytes`].
    pub fn live_bytes(mut self, most: impl Into<Option<u64>>) -> Self {
        self.live_bytes = most.into();
        self
    }

    /// Sets the highest [`Figures::reserved_bytes`].
    pub fn reserved_bytes(mut self, most: impl Into<Option<u64>>) -> Self {
        self.reserved_bytes = most.into();
        self
    }

    /// Sets the highest [`Figures::fragmentation_percent`].
    pub fn fragmentation_percent(mut self, most: impl Into<Option<f64>>) -> Self {
        self.fragmentation_percent = most.into();
        self
    }

    /// Sets the most device memory, in bytes, that an owner such as `nccl` may hold at any moment
    /// ([`DeviceHistory::owner_peaks`]). An absent owner holds 0 bytes.
    pub fn owner_bytes(mut self, owner: impl Into<String>, most: u64) -> Self {
        self.owners_bytes.push((owner.into(), most));
        self
    }

    /// Sets the most bytes that may be in use at any moment in a scope ([`DeviceHistory::peak_in`]).
    pub fn scope_bytes(mut self, scope: impl Into<String>, most: u64) -> Self {
        self.scopes_bytes.push((scope.into(), most));
        self
    }

    /// Returns the names of the scopes that have a limit.
    pub fn scopes(&self) -> impl Iterator<Item = &str> {
        self.scopes_bytes.iter().map(|(scope, _)| &**scope)
    }
}

/// The comparison of one figure with one limit.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[non_exhaustive]
pub struct Check {
    /// The name of the figure: `peak`, `live`, `reserved` or `fragmentation`, or `owner` or `peak in scope` with a name.
    pub what: Cow<'static, str>,
    /// The figure.
    pub actual: Measure,
    /// The highest figure that is allowed.
    pub most: Measure,
    /// Whether the limit comes from an older snapshot.
    pub is_baseline: bool,
    /// Whether the figure is within its limit.
    pub is_passed: bool,
}

/// A figure with its unit; it serialises as only the number.
#[derive(Clone, Copy, PartialEq, PartialOrd, Debug, Serialize)]
#[serde(untagged)]
#[non_exhaustive]
pub enum Measure {
    /// Bytes.
    Bytes(u64),
    /// Percent.
    Percent(f64),
}

impl Check {
    fn new(what: impl Into<Cow<'static, str>>, actual: Measure, most: Measure) -> Check {
        Check { what: what.into(), actual, most, is_baseline: false, is_passed: actual <= most }
    }

    /// Returns the moment of the figure, given the figures and their history.
    #[must_use]
    pub fn moment(&self, figures: &Figures, history: &DeviceHistory<'_>) -> Moment {
        if let Some(owner) = self.owner() {
            let peaks = history.owner_peaks();
            return peaks.iter().find(|peak| peak.owner == owner).map_or(Moment::START, |peak| peak.moment);
        }
        if let Some(scope) = self.what.strip_prefix(SCOPE) {
            return history.peak_in(scope).map_or(Moment::START, |totals| totals.moment);
        }
        match &*self.what {
            "peak" => figures.peak,
            "live" => history.end(),
            _ => figures.most_reserved,
        }
    }
}

impl DeviceHistory<'_> {
    /// Returns the peak that a check is about, if it was before the events.
    #[must_use]
    pub fn earlier_peak_of(&self, check: &Check) -> Option<&EarlierPeak> {
        self.earlier_peak().filter(|_| check.what == "peak")
    }

    /// Returns the checked figures that are known only for the last events, because the others are lost or cut off.
    #[must_use]
    pub fn known_in_part<'c>(&self, checks: &'c [Check]) -> Vec<&'c Check> {
        let trust = self.trust();
        if !trust.has_lost && trust.n_cut == 0 {
            return Vec::new();
        }
        let is_known = |check: &&Check| match &*check.what {
            "live" => true,
            "peak" => trust.knows_peak(),
            _ => false,
        };
        checks.iter().filter(|check| !is_known(check)).collect()
    }
}

/// The prefix of an owner's check.
const OWNER: &str = "owner ";

/// The prefix of a scope's check.
const SCOPE: &str = "peak in scope ";

impl Check {
    /// Returns the owner that the check is about, if it is about one.
    #[must_use]
    pub fn owner(&self) -> Option<&str> {
        self.what.strip_prefix(OWNER)
    }
}

impl DeviceHistory<'_> {
    /// Compares the most device memory that each owner holds with limits, in the order of the limits.
    #[must_use]
    pub fn check_owners(&self, limits: &Limits) -> Vec<Check> {
        if limits.owners_bytes.is_empty() {
            return Vec::new();
        }
        let peaks = self.owner_peaks();
        let check = |(owner, most): &(String, u64)| {
            let bytes = peaks.iter().find(|peak| peak.owner == *owner).map_or(0, |peak| peak.bytes);
            Check::new(format!("{OWNER}{owner}"), Measure::Bytes(bytes), Measure::Bytes(*most))
        };
        limits.owners_bytes.iter().map(check).collect()
    }

    /// Compares the most bytes in use in scopes with limits, in the order of the limits. A scope that the history does not
    /// have is left out.
    #[must_use]
    pub fn check_scopes(&self, limits: &Limits) -> Vec<Check> {
        let check = |(scope, most): &(String, u64)| {
            let bytes = self.peak_in(scope)?.active_bytes;
            Some(Check::new(format!("{SCOPE}{scope}"), Measure::Bytes(bytes), Measure::Bytes(*most)))
        };
        limits.scopes_bytes.iter().filter_map(check).collect()
    }

    /// Compares the owners that have a limit with those of an older snapshot, which they may exceed by `tolerance_percent`.
    #[must_use]
    pub fn check_owners_baseline(
        &self,
        limits: &Limits,
        baseline: &DeviceHistory<'_>,
        tolerance_percent: f64,
    ) -> Vec<Check> {
        let mut of_baseline = Limits::new();
        for check in baseline.check_owners(limits) {
            if let (Some(owner), Measure::Bytes(bytes)) = (check.owner(), check.actual) {
                of_baseline = of_baseline.owner_bytes(owner, with_tolerance(bytes, tolerance_percent));
            }
        }
        self.check_owners(&of_baseline)
            .into_iter()
            .map(|check| Check { is_baseline: true, ..check })
            .collect()
    }
}

/// Returns a number of bytes that is larger by a share.
#[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn with_tolerance(bytes: u64, percent: f64) -> u64 {
    bytes.saturating_add((bytes as f64 * percent.max(0.0) / 100.0) as u64)
}

impl Figures {
    /// Compares the figures with limits. The results are in the order peak, live, reserved,
    /// fragmentation.
    #[must_use]
    pub fn check(&self, limits: &Limits) -> Vec<Check> {
        let bytes = |what, actual, most: Option<u64>| {
            Some(Check::new(what, Measure::Bytes(actual), Measure::Bytes(most?)))
        };
        let percent = |what, actual, most: Option<f64>| {
            Some(Check::new(what, Measure::Percent(actual), Measure::Percent(most?)))
        };
        let all = [
            bytes("peak", self.peak_bytes, limits.peak_bytes),
            bytes("live", self.live_bytes, limits.live_bytes),
            bytes("reserved", self.reserved_bytes, limits.reserved_bytes),
            percent("fragmentation", self.fragmentation_percent, limits.fragmentation_percent),
        ];
        all.into_iter().flatten().collect()
    }

    /// Compares peak, live and reserved bytes with those of an older snapshot, which they may exceed by
    /// `tolerance_percent`.
    #[must_use]
    pub fn check_baseline(&self, baseline: &Figures, tolerance_percent: f64) -> Vec<Check> {
        let most = |bytes| with_tolerance(bytes, tolerance_percent);
        let limits = Limits::new()
            .peak_bytes(most(baseline.peak_bytes))
            .live_bytes(most(baseline.live_bytes))
            .reserved_bytes(most(baseline.reserved_bytes));
        self.check(&limits).into_iter().map(|check| Check { is_baseline: true, ..check }).collect()
    }
}

impl Limits {
    /// Sets whether [`Limits::broken_by`] accepts a history that is not whole. Default: no.
    ///
    /// Its figures may be too low, because they cover only the recorded events.
    pub fn allow_partial(mut self, allow: bool) -> Self {
        self.allows_partial = allow;
        self
    }

    /// Returns why a snapshot breaks the limits, with the stacks that hold the most; `None` if every device respects
    /// them.
    ///
    /// A device whose history is not whole ([`Trust::is_whole`](crate::history::Trust::is_whole)) breaks
    /// them too, unless [`Limits::allow_partial`] is set. [`assert_peak!`](crate::assert_peak) and
    /// [`assert_live!`](crate::assert_live) call this method.
    #[must_use]
    pub fn broken_by(&self, snapshot: &Snapshot) -> Option<String> {
        let mut devices = devices(snapshot);
        if devices.is_empty() {
            // If nothing is known about a device, whether that is because nothing happened is judged too.
            devices.push(DeviceId(0));
        }
        let histories = Histories::new(snapshot);
        devices.into_iter().find_map(|device| self.broken_on(&histories.of(device)))
    }

    fn broken_on(&self, history: &DeviceHistory<'_>) -> Option<String> {
        let figures = history.figures();
        let owners = history.check_owners(self);
        let checks = figures.check(self).into_iter().chain(owners).chain(history.check_scopes(self));
        let over = checks.into_iter().find(|check| !check.is_passed);
        over.map(|check| explained(history, &figures, &check)).or_else(|| self.doubted(history))
    }

    fn doubted(&self, history: &DeviceHistory<'_>) -> Option<String> {
        let trust = history.trust();
        if self.allows_partial || trust.is_whole() {
            return None;
        }
        let bytes = |bytes| format!("{bytes} bytes");
        let why: Vec<String> = trust.warnings().into_iter().chain(trust.unknown_before(bytes)).collect();
        let (device, why) = (history.device(), why.join("; "));
        Some(format!(
            "the history of device {device} is incomplete: {why}; record all of it with Recording::all(), or \
             accept it with Limits::allow_partial or a last argument `allow_partial`"
        ))
    }
}

impl fmt::Display for Measure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Measure::Bytes(bytes) => write!(f, "{bytes} bytes"),
            Measure::Percent(percent) => write!(f, "{percent:.1} %"),
        }
    }
}

fn explained(history: &DeviceHistory<'_>, figures: &Figures, over: &Check) -> String {
    let what = if over.what == "live" { "live at the end" } else { &over.what };
    let earlier = history.earlier_peak_of(over).map(|peak| (peak, peak.stacks()));
    let stacks = earlier.as_ref().map_or(history, |(_, stacks)| stacks);
    let groups = match &earlier {
        Some((peak, stacks)) => peak.top(stacks, By::Stack).unwrap_or_default(),
        None => history.top(over.moment(figures, history), By::Stack),
    };
    let shown = stacks.shown_frames();
    let most = match over.most {
        Measure::Bytes(bytes) => bytes.to_string(),
        percent @ Measure::Percent(_) => percent.to_string(),
    };
    let (device, actual) = (history.device(), over.actual);
    let mut text = format!("{what}: {actual} on device {device}, more than {most}");
    for group in groups.iter().take(3) {
        let noun = if group.n_blocks == 1 { "block" } else { "blocks" };
        let _ = write!(text, "\n  {} bytes in {} {noun}", group.bytes, group.n_blocks);
        let Site::Stack(stack) = group.site else { continue };
        for frame in shown.identifying(stack).take(4) {
            let frame = stacks.snapshot().stacks.frame(frame);
            let _ = write!(text, "\n    {} ({}:{})", frame.name, base_name(&frame.filename), frame.line);
        }
    }
    text
}

/// Fails a test if a snapshot's peak exceeds a number of bytes, and lists the stacks that hold the most.
///
/// The peak of a device is the most bytes in use at any moment of its recorded history. Every device has
/// to keep the limit.
///
/// ```
/// use memreel::{Reel, recorder::Recording};
///
/// let reel = Reel::builder().history(Recording::all()).build()?;
/// drop((reel.alloc(1000)?, reel.alloc(2000)?));
/// memreel::assert_peak!(reel.snapshot(), 3000);
/// # Ok::<(), memreel::Error>(())
/// ```
///
/// # Panics
/// If the peak is higher, or if the history is not whole ([`Trust::is_whole`](crate::history::Trust::is_whole)):
/// nothing was recorded, the ring lost entries, small allocations or frees were not recorded (`min_size`,
/// `sample_every`, `skip_actions`), or recording started when memory was already held. Such a history may have had any
/// peak. A last argument `allow_partial` accepts it and compares what was recorded:
///
/// ```
/// # use memreel::{Reel, recorder::Recording};
/// let reel = Reel::builder().history(Recording::all().min_size(1 << 20)).build()?;
/// drop(reel.alloc(2 << 20)?);
/// memreel::assert_peak!(reel.snapshot(), 2 << 20, allow_partial);
/// # Ok::<(), memreel::Error>(())
/// ```
#[macro_export]
macro_rules! assert_peak {
    ($snapshot:expr, $most_bytes:expr $(,)?) => {
        $crate::__assert_within!($snapshot, peak_bytes, $most_bytes, false)
    };
    ($snapshot:expr, $most_bytes:expr, allow_partial $(,)?) => {
        $crate::__assert_within!($snapshot, peak_bytes, $most_bytes, true)
    };
}

/// Fails a test if a snapshot holds more than a number of bytes at its end, and lists the stacks that hold the most.
///
/// ```
/// use memreel::{Reel, recorder::Recording};
///
/// let reel = Reel::builder().history(Recording::all()).build()?;
/// drop(reel.alloc(1000)?);
/// memreel::assert_live!(reel.snapshot(), 0);
/// # Ok::<(), memreel::Error>(())
/// ```
///
/// # Panics
/// If more is live, or if the history is not whole, as with [`assert_peak!`](crate::assert_peak); a last
/// argument `allow_partial` accepts such a history.
#[macro_export]
macro_rules! assert_live {
    ($snapshot:expr, $most_bytes:expr $(,)?) => {
        $crate::__assert_within!($snapshot, live_bytes, $most_bytes, false)
    };
    ($snapshot:expr, $most_bytes:expr, allow_partial $(,)?) => {
        $crate::__assert_within!($snapshot, live_bytes, $most_bytes, true)
    };
}

/// The common part of [`assert_peak!`](crate::assert_peak) and [`assert_live!`](crate::assert_live).
#[doc(hidden)]
#[macro_export]
macro_rules! __assert_within {
    ($snapshot:expr, $figure:ident, $most_bytes:expr, $allow_partial:literal) => {{
        let most_bytes: u64 = $most_bytes;
        let limits = $crate::analysis::Limits::new().$figure(most_bytes).allow_partial($allow_partial);
        if let ::std::option::Option::Some(why) = limits.broken_by(&$snapshot) {
            ::std::panic!("{why}");
        }
    }};
}
