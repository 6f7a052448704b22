//! The pace of growth: bytes for each scope with a name, or per second, minute or hour.

use std::fmt;

use crate::{
    analysis::{Bytes, DeviceHistory},
    history::Moment,
    words::SeededMap,
};

/// The bytes by which something grows with each scope or per time, printed as `3.00 MiB for each of 12 step` or
/// `1.20 GiB an hour`.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Pace {
    /// The outermost scopes with the most frequent name.
    Scopes {
        /// The bytes for each of them.
        bytes: u64,
        /// The number of them since the growth started.
        n_scopes: usize,
        /// Their name, without the number that some have in it.
        name: String,
    },
    /// The bytes per second, minute or hour: the longest of these that is not longer than the growth.
    Time {
        /// The bytes.
        bytes: u64,
        /// `second`, `minute` or `hour`.
        unit: &'static str,
    },
}

impl DeviceHistory<'_> {
    /// Returns the pace of a growth by `bytes` between two moments; `None` if there are neither two such scopes nor a second.
    #[must_use]
    pub fn pace(&self, bytes: u64, began: Moment, until: Moment) -> Option<Pace> {
        let first = began.entry()?;
        let last = until.entry().map_or(0, |entry| entry.min(self.entries().len().saturating_sub(1)));
        let mut counts = SeededMap::<String, usize>::default();
        for scope in self.scopes().outermost() {
            if scope.entries.end > first && scope.entries.start <= last {
                let name = scope.name.trim_end_matches(|c: char| c.is_ascii_digit()).trim_end_matches('#');
                *counts.entry(name.to_owned()).or_default() += 1;
            }
        }
        let most = counts.into_iter().map(|(name, n)| (n, std::cmp::Reverse(name))).max();
        if let Some((n_scopes @ 2.., std::cmp::Reverse(name))) = most {
            return Some(Pace::Scopes { bytes: bytes / n_scopes as u64, n_scopes, name });
        }
        let [from, until] = [first, last].map(|entry| self.entries().get(entry));
        let [from_us, until_us] = [from?.time_us, until?.time_us];
        Pace::between(bytes, from_us, until_us)
    }
}

impl Pace {
    /// Returns the pace of a growth by `bytes` between two times, in microseconds; `None` if it took less than a second, or if a
    /// time is 0: it is not known then.
    #[must_use]
    pub fn between(bytes: u64, from_us: i64, until_us: i64) -> Option<Pace> {
        let took_us = until_us.checked_sub(from_us).filter(|_| from_us > 0 && until_us > 0)?;
        let took_us = u64::try_from(took_us).ok()?;
        let units = [("hour", 3_600_000_000), ("minute", 60_000_000), ("second", 1_000_000)];
        let (unit, unit_us) = units.into_iter().find(|(_, unit_us)| *unit_us <= took_us)?;
        let bytes = u128::from(bytes) * u128::from(unit_us) / u128::from(took_us);
        Some(Pace::Time { bytes: u64::try_from(bytes).unwrap_or(u64::MAX), unit })
    }
}

impl fmt::Display for Pace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Pace::Scopes { bytes, n_scopes, name } => {
                write!(f, "{} for each of {n_scopes} {name}", Bytes(*bytes))
            }
            Pace::Time { bytes, unit } => {
                let article = if *unit == "hour" { "an" } else { "a" };
                write!(f, "{} {article} {unit}", Bytes(*bytes))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{model::Snapshot, words::DeviceId};

    /// Returns the pace of a growth by 3,600 bytes over entries of these scopes and times.
    fn pace(entries: &[(&str, i64)]) -> Option<String> {
        let entries: Vec<serde_json::Value> = entries
            .iter()
            .zip(1_u64..)
            .map(|((scope, time_us), n)| {
                serde_json::json!({"action": "alloc", "addr": n << 21, "size": 512, "stream": 0,
                    "time_us": time_us, "user_metadata": scope, "frames": []})
            })
            .collect();
        let n = entries.len();
        let json = serde_json::json!({"segments": [], "device_traces": [entries]});
        let snapshot: Snapshot = serde_json::from_value(json).unwrap();
        let history = DeviceHistory::new(&snapshot, DeviceId(0));
        history.pace(3600, Moment::after(0), Moment::after(n - 1)).map(|pace| pace.to_string())
    }

    #[test]
    fn scopes_are_counted_and_else_the_time_is_taken() {
        let steps = [("step", 1), ("", 2), ("step", 3), ("", 4), ("step", 5)];
        assert_eq!(pace(&steps).as_deref(), Some("1.17 KiB for each of 3 step"));
        let numbered = [("Step#1", 1), ("Step#2", 2), ("", 3), ("Step#3", 4)];
        assert_eq!(pace(&numbered).as_deref(), Some("1.17 KiB for each of 3 Step"));
        // Of two names, the more frequent one is reported.
        let two = [("step", 1), ("save", 2), ("", 3), ("step", 4), ("", 5), ("step", 6), ("save", 7)];
        assert_eq!(pace(&two).as_deref(), Some("1.17 KiB for each of 3 step"));
        assert_eq!(pace(&[("", 1), ("", 7_200_000_001)]).as_deref(), Some("1.76 KiB an hour"));
        assert_eq!(pace(&[("", 1), ("", 120_000_001)]).as_deref(), Some("1.76 KiB a minute"));
        assert_eq!(pace(&[("", 1), ("", 2_000_001)]).as_deref(), Some("1.76 KiB a second"));
        assert_eq!(pace(&[("", 1), ("", 999_999)]), None);
        // An entry without a time, and a clock that was set back, show no time.
        assert_eq!(pace(&[("", 0), ("", 7_200_000_000)]), None);
        assert_eq!(pace(&[("", 5_000_000), ("", 1)]), None);
    }
}
