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
        checks.iter().filter(|check| !self.knows(&check.what)).collect()
    }

    /// Returns whether the figure that a check has this name for is that of the whole run.
    #[must_use]
    pub fn knows(&self, what: &str) -> bool {
        let trust = self.trust();
        let has_all = !trust.has_lost && trust.n_cut == 0;
        match what {
            "live" => true,
            "peak" => trust.knows_peak(),
            _ => has_all,
        }
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
}
