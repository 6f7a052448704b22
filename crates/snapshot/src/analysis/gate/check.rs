//! The comparison of one figure with one limit.

use std::{borrow::Cow, fmt};

use serde::Serialize;

use super::figures::Figures;
use crate::{analysis::DeviceHistory, history::Moment};

/// What the name of an owner's check begins with.
pub(super) const OWNER: &str = "owner ";

/// What the name of a scope's check begins with.
pub(super) const SCOPE: &str = "peak in scope ";

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

/// A figure with its unit; it serialises as the number alone.
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
    pub(super) fn new(what: impl Into<Cow<'static, str>>, actual: Measure, most: Measure) -> Check {
        Check { what: what.into(), actual, most, is_baseline: false, is_passed: actual <= most }
    }

    /// Marks it as one whose limit comes from an older run.
    #[must_use]
    pub fn of_baseline(self) -> Check {
        Check { is_baseline: true, ..self }
    }

    /// Returns the moment of the figure, given the figures and the history that they are of.
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

    /// Returns the owner whose bytes it compares, if it is one of an owner.
    #[must_use]
    pub fn owner(&self) -> Option<&str> {
        self.what.strip_prefix(OWNER)
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
