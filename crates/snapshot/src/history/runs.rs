//! Finds ranges of entries that all meet a condition.

use std::ops::Range;

/// The longest ranges of entries that all meet a condition, found entry by entry.
#[derive(Debug, Default)]
pub(crate) struct Runs {
    pub(crate) found: Vec<Range<usize>>,
    n_entries: usize,
    /// The number of entries since the last that was not passed over.
    n_passed: usize,
}

impl Runs {
    /// Takes the next entry, and whether it meets the condition.
    pub(crate) fn take(&mut self, holds: bool) {
        let (number, n_passed) = (self.n_entries, std::mem::take(&mut self.n_passed));
        self.n_entries += 1;
        match self.found.last_mut() {
            _ if !holds => {}
            Some(last) if last.end + n_passed == number => last.end = number + 1,
            _ => self.found.push(number..number + 1),
        }
    }

    /// Skips an entry that cannot meet the condition; it does not end the range around it.
    pub(crate) fn pass(&mut self) {
        self.n_entries += 1;
        self.n_passed += 1;
    }
}
