//! Whether the entries of a trace are in the order of their times (`docs/snapshot-format.md` 2.5).

use crate::snapshot::TraceEntry;

/// The time in microseconds by which the clocks of several processors may differ.
pub(crate) const JITTER_US: i64 = 1000;

/// An entry that is older than the one before it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Disorder {
    /// The number of the entry.
    pub(crate) entry: usize,
    /// How much older, in microseconds.
    pub(crate) back_us: i64,
}

/// Returns the first entry that is more than `tolerance_us` older than the one before it.
///
/// A ring whose size was changed while it held entries writes its parts in the wrong order, and
/// times run back by as long as it took to fill. Clocks that differ make them run back by less than
/// [`JITTER_US`]. With a tolerance of 0 both count.
pub(crate) fn first_disorder(entries: &[TraceEntry], tolerance_us: i64) -> Option<Disorder> {
    let back_us = |pair: &[TraceEntry]| pair[0].time_us.saturating_sub(pair[1].time_us);
    let before = entries.windows(2).position(|pair| back_us(pair) > tolerance_us)?;
    Some(Disorder { entry: before + 1, back_us: back_us(&entries[before..before + 2]) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tolerance_decides() {
        let trace = [5000, 4000, 4500, 3400].map(|time_us| TraceEntry { time_us, ..TraceEntry::default() });
        assert_eq!(first_disorder(&trace, 0), Some(Disorder { entry: 1, back_us: 1000 }));
        assert_eq!(first_disorder(&trace, JITTER_US), Some(Disorder { entry: 3, back_us: 1100 }));
        assert_eq!(first_disorder(&trace, 1100), None);
        assert_eq!(first_disorder(&[], 0), None);
    }
}
