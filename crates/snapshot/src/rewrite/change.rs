//! Changes to a snapshot, counted by kind and place.

use std::fmt;

/// One kind of change to a snapshot, described for users.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Change {
    /// The changed part: `device_traces[0]`, `segments`, or empty for the whole file.
    pub place: String,
    /// What was done, in the past tense.
    pub what: &'static str,
    /// How often it was done.
    pub count: usize,
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.place.is_empty() {
            write!(f, "{}: ", self.place)?;
        }
        write!(f, "{}", self.what)?;
        if self.count == 1 { Ok(()) } else { write!(f, " ({})", self.count) }
    }
}

/// Collects changes; equal changes at one place are one change with a count.
#[derive(Debug, Default)]
pub(super) struct Changes(Vec<Change>);

impl Changes {
    pub(super) fn add(&mut self, place: &str, what: &'static str, count: usize) {
        if count == 0 {
            return;
        }
        match self.0.iter_mut().find(|change| change.place == place && change.what == what) {
            Some(change) => change.count += count,
            None => self.0.push(Change { place: place.to_owned(), what, count }),
        }
    }

    /// Returns how many changes there are.
    pub(super) fn n(&self) -> usize {
        self.0.iter().map(|change| change.count).sum()
    }

    /// Adds changes at another place.
    pub(super) fn append(&mut self, mut others: Changes) {
        self.0.append(&mut others.0);
    }

    pub(super) fn into_list(self) -> Vec<Change> {
        self.0
    }
}
