//! Vector clocks: how far the work of each stream is known to have come.

/// For each stream, the number of its operations that are before a point in time.
#[derive(Clone, Default, Debug)]
pub(crate) struct Clock(Vec<u64>);

impl Clock {
    pub(crate) fn get(&self, line: usize) -> u64 {
        self.0.get(line).copied().unwrap_or(0)
    }

    pub(crate) fn set(&mut self, line: usize, time: u64) {
        if self.0.len() <= line {
            self.0.resize(line + 1, 0);
        }
        self.0[line] = time;
    }

    pub(crate) fn join(&mut self, other: &Clock) {
        if self.0.len() < other.0.len() {
            self.0.resize(other.0.len(), 0);
        }
        self.0.iter_mut().zip(&other.0).for_each(|(mine, theirs)| *mine = (*mine).max(*theirs));
    }

    /// Returns true if everything before this clock is before the other one.
    pub(crate) fn is_within(&self, other: &Clock) -> bool {
        self.0.iter().enumerate().all(|(line, time)| *time <= other.get(line))
    }
}
