//! The times of a trace's entries, also of those that could not be dated (`docs/snapshot-format.md` 2.4).

use std::borrow::Cow;

use crate::model::TraceEntry;

/// The times of a trace's entries, in microseconds since the Unix epoch.
///
/// PyTorch writes the time 0 for an entry that it cannot date. Such an entry has the time of the entry
/// before it; in front of all dated entries it has that of the first. In a trace without any time all
/// are 0.
#[derive(Debug)]
pub(crate) struct Times<'a> {
    entries: &'a [TraceEntry],
    /// The times of all entries; empty if each entry has its own.
    filled: Vec<i64>,
}

impl<'a> Times<'a> {
    pub(crate) fn new(entries: &'a [TraceEntry]) -> Times<'a> {
        let mut filled = Vec::new();
        let first_us = entries.iter().map(|entry| entry.time_us).find(|time_us| *time_us != 0);
        if let Some(mut latest_us) = first_us.filter(|_| entries.iter().any(|entry| entry.time_us == 0)) {
            filled.extend(entries.iter().map(|entry| {
                if entry.time_us != 0 {
                    latest_us = entry.time_us;
                }
                latest_us
            }));
        }
        Times { entries, filled }
    }

    /// Takes the times of all entries, which are in order.
    pub(crate) fn of(times: Vec<i64>) -> Times<'static> {
        Times { entries: &[], filled: times }
    }

    /// Returns the same times without steps back: an entry that is older than one before it has the time of that.
    pub(crate) fn rising(self) -> Times<'a> {
        let is_sorted = match self.filled.is_empty() {
            true => self.entries.is_sorted_by_key(|entry| entry.time_us),
            false => self.filled.is_sorted(),
        };
        if is_sorted {
            return self;
        }
        let mut latest_us = i64::MIN;
        let rising = |time_us: &i64| {
            latest_us = latest_us.max(*time_us);
            latest_us
        };
        Times { entries: self.entries, filled: self.all().iter().map(rising).collect() }
    }

    /// Returns the time of an entry; `None` after the last.
    pub(crate) fn get(&self, entry: usize) -> Option<i64> {
        let filled = self.filled.get(entry).copied();
        filled.or_else(|| self.entries.get(entry).map(|entry| entry.time_us))
    }

    /// Returns the number of entries up to the last that is not later than a time; the entries are in order.
    pub(crate) fn n_until(&self, time_us: i64) -> usize {
        match self.filled.is_empty() {
            true => self.entries.partition_point(|entry| entry.time_us <= time_us),
            false => self.filled.partition_point(|filled_us| *filled_us <= time_us),
        }
    }

    /// Returns the times of all entries.
    pub(crate) fn all(&self) -> Cow<'_, [i64]> {
        if self.filled.is_empty() {
            self.entries.iter().map(|entry| entry.time_us).collect()
        } else {
            Cow::Borrowed(&self.filled)
        }
    }
}

/// Returns the earliest and the latest time of entries, in microseconds; `None` if no entry is dated.
pub(crate) fn time_span<'e>(entries: impl IntoIterator<Item = &'e TraceEntry>) -> Option<(i64, i64)> {
    let times = entries.into_iter().map(|entry| entry.time_us).filter(|time_us| *time_us != 0);
    times.fold(None, |span, time_us| {
        let (first, last) = span.unwrap_or((time_us, time_us));
        Some((first.min(time_us), last.max(time_us)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn undated_entries_have_the_time_of_a_neighbour() {
        let trace = |times: &[i64]| -> Vec<TraceEntry> {
            times.iter().map(|time_us| TraceEntry { time_us: *time_us, ..TraceEntry::default() }).collect()
        };
        let times = |raw: &[i64]| Times::new(&trace(raw)).all().into_owned();
        assert_eq!(times(&[0, 0, 5, 0, 7, 0]), [5, 5, 5, 5, 7, 7]);
        assert_eq!(times(&[0, 0]), [0, 0]);
        assert_eq!(times(&[3, 9, 4]), [3, 9, 4]);
        assert_eq!(Times::new(&trace(&[0, 5])).get(0), Some(5));
        assert_eq!(Times::new(&trace(&[4, 5])).get(2), None);
        assert_eq!(time_span(&trace(&[0, 9, 4, 0])), Some((4, 9)));
        assert_eq!(time_span(&trace(&[0])), None);
    }
}
