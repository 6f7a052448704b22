//! The pace of a growth: its bytes a step of the program, or a second, minute or hour.

use std::fmt;

use super::{Bytes, state::DeviceHistory};
use crate::{history::Moment, words::SeededMap};

/// The bytes by which something grows in each step or in a time, printed as `3.00 MiB in each of 12 steps` or
/// `1.20 GiB an hour`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Pace {
    /// The steps are the outermost scopes with the most frequent name.
    Steps {
        /// The bytes in each step.
        bytes: u64,
        /// The number of steps since the growth began.
        n_steps: usize,
    },
    /// The bytes in a second, a minute or an hour: the longest of these that is not longer than the growth.
    Time {
        /// The bytes.
        bytes: u64,
        /// `second`, `minute` or `hour`.
        unit: &'static str,
    },
}

impl DeviceHistory<'_> {
    /// Returns the pace of a growth by `bytes` between two moments; `None` if there are neither steps nor a second.
    #[must_use]
    pub fn pace(&self, bytes: u64, began: Moment, until: Moment) -> Option<Pace> {
        let first = began.entry()?;
        let last = until.entry().map_or(0, |entry| entry.min(self.entries().len().saturating_sub(1)));
        let mut begun = SeededMap::<String, (usize, usize)>::default();
        for scope in self.scopes().outermost() {
            let entries = scope.entries.start.max(first)..scope.entries.end.min(last + 1);
            if !entries.is_empty() {
                let name = scope.name.trim_end_matches(|c: char| c.is_ascii_digit()).to_owned();
                let (n_steps, n_entries) = begun.entry(name).or_default();
                (*n_steps, *n_entries) = (*n_steps + 1, *n_entries + entries.len());
            }
        }
        // Scopes that cover little of the time are not what the program repeats.
        let n_all = (last + 1).saturating_sub(first);
        let steps = begun.into_values().filter(|(n_steps, n_entries)| *n_steps > 1 && n_entries * 2 > n_all);
        if let Some((n_steps, _)) = steps.max() {
            return Some(Pace::Steps { bytes: bytes / n_steps as u64, n_steps });
        }
        let [from, until] = [first, last].map(|entry| self.entries().get(entry));
        let [from_us, until_us] = [from?.time_us, until?.time_us];
        // An entry without a time has 0.
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
        match *self {
            Pace::Steps { bytes, n_steps } => write!(f, "{} in each of {n_steps} steps", Bytes(bytes)),
            Pace::Time { bytes, unit } => {
                let article = if unit == "hour" { "an" } else { "a" };
                write!(f, "{} {article} {unit}", Bytes(bytes))
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
    fn steps_are_counted_and_else_the_time_is_taken() {
        let steps = [("step", 1), ("", 2), ("step", 3), ("", 4), ("step", 5)];
        assert_eq!(pace(&steps).as_deref(), Some("1.17 KiB in each of 3 steps"));
        let numbered = [("Step#1", 1), ("Step#2", 2), ("", 3), ("Step#3", 4)];
        assert_eq!(pace(&numbered).as_deref(), Some("1.17 KiB in each of 3 steps"));
        // Two checkpoints in a long run are no steps.
        let seldom = [("save", 1), ("", 2), ("", 3), ("", 4), ("", 5), ("save", 6)];
        assert_eq!(pace(&seldom), None);
        assert_eq!(pace(&[("", 1), ("", 7_200_000_001)]).as_deref(), Some("1.76 KiB an hour"));
        assert_eq!(pace(&[("", 1), ("", 120_000_001)]).as_deref(), Some("1.76 KiB a minute"));
        assert_eq!(pace(&[("", 1), ("", 2_000_001)]).as_deref(), Some("1.76 KiB a second"));
        assert_eq!(pace(&[("", 1), ("", 999_999)]), None);
        // An entry without a time, and a clock that was set back, show no time.
        assert_eq!(pace(&[("", 0), ("", 7_200_000_000)]), None);
        assert_eq!(pace(&[("", 5_000_000), ("", 1)]), None);
    }
}
