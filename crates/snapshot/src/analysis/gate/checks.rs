//! The checks of a history: its figures, owners and scopes against limits, or against an older history.

use super::{
    check::{Check, Measure, OWNER, SCOPE},
    figures::Figures,
    limits::Limits,
};
use crate::analysis::{DeviceHistory, EarlierPeak};

impl DeviceHistory<'_> {
    /// Returns the peak that a check is about, if it was before the events.
    #[must_use]
    pub fn earlier_peak_of(&self, check: &Check) -> Option<&EarlierPeak> {
        self.earlier_peak().filter(|_| check.what == "peak")
    }

    /// Returns the figures among checks that are known of the last events alone, because the others are lost or cut off.
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

    /// Compares the most bytes that owners hold from the device with limits, in the order of the limits.
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
