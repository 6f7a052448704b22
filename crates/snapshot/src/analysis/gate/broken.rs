//! Why a snapshot breaks limits, with the stacks that hold the most, and the macros of tests that fail with it.

use std::fmt::Write;

use super::{
    check::{Check, Measure},
    figures::Figures,
    limits::Limits,
};
use crate::{
    analysis::{By, DeviceHistory, Histories, Site, devices},
    model::Snapshot,
    words::{DeviceId, paths::base_name},
};

impl Limits {
    /// Returns why a snapshot breaks the limits, with the stacks that hold the most; `None` if every device
    /// keeps them.
    ///
    /// A device whose history is not whole ([`Trust::is_whole`](crate::history::Trust::is_whole)) breaks
    /// them too, unless [`Limits::allow_partial`] is set. [`assert_peak!`](crate::assert_peak) and
    /// [`assert_live!`](crate::assert_live) call this method.
    #[must_use]
    pub fn broken_by(&self, snapshot: &Snapshot) -> Option<String> {
        let mut devices = devices(snapshot);
        if devices.is_empty() {
            // Nothing is known about a device. Whether that is because nothing happened is judged too.
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
            "the history of device {device} is incomplete: {why}; record all of it with Recording::all(), or accept \
             it with Limits::allow_partial or a last argument `allow_partial`"
        ))
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

/// Fails a test if a snapshot's peak is over a number of bytes, and names the stacks that hold the most.
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
/// If the peak is higher, or if the history is not whole
/// ([`Trust::is_whole`](crate::history::Trust::is_whole)): nothing was recorded, the ring lost entries,
/// small allocations or frees were not recorded (`min_size`, `sample_every`, `skip_actions`), or recording
/// began when memory was already held. Such a history may have had any peak. A last argument
/// `allow_partial` accepts it and compares what was recorded:
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

/// Fails a test if a snapshot holds more than a number of bytes at its end, and names the stacks that hold
/// the most.
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

/// What [`assert_peak!`](crate::assert_peak) and [`assert_live!`](crate::assert_live) have in common.
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
