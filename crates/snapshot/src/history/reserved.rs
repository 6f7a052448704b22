//! Computes the bytes of device memory that are held: how an entry changes them, and how many there were at the start.

use crate::{
    model::{Segment, TraceEntry},
    words::Action,
};

/// Returns the bytes that an entry takes from the device; negative if it returns them.
#[inline]
pub fn change(entry: &TraceEntry) -> i128 {
    match entry.action {
        Some(Action::SegmentAlloc | Action::SegmentMap) => i128::from(entry.size),
        Some(Action::SegmentFree | Action::SegmentUnmap) => -i128::from(entry.size),
        _ => 0,
    }
}

/// Returns the bytes that were held before the first entry: those of the final segments, less what
/// came, plus what went.
///
/// For a trace without its segments this would be negative where more went than came. Then it is the
/// least with which no entry gives back what is not there.
pub fn reserved_at_start<'s>(entries: &[TraceEntry], segments: impl IntoIterator<Item = &'s Segment>) -> u64 {
    let end: i128 = segments.into_iter().map(|segment| i128::from(segment.total_size)).sum();
    // The lowest level of the trace, counted from its start.
    let (level, lowest) = entries.iter().fold((0_i128, 0_i128), |(level, lowest), entry| {
        let level = level + change(entry);
        (level, lowest.min(level))
    });
    u64::try_from((end - level).max(-lowest)).unwrap_or(u64::MAX)
}

/// Returns the most bytes held at any moment of a trace that starts with `start_bytes`.
pub fn reserved_peak(entries: &[TraceEntry], start_bytes: u64) -> u64 {
    let start = i128::from(start_bytes);
    let (_, peak) = entries.iter().fold((start, start), |(level, peak), entry| {
        let level = (level + change(entry)).max(0);
        (level, peak.max(level))
    });
    u64::try_from(peak).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(action: Action, size: u64) -> TraceEntry {
        TraceEntry { action: Some(action), size, ..TraceEntry::default() }
    }

    #[test]
    fn the_start_follows_from_the_end() {
        let trace = [entry(Action::SegmentAlloc, 30), entry(Action::SegmentFree, 10)];
        let segment = Segment { total_size: 50, ..Segment::default() };
        assert_eq!(reserved_at_start(&trace, [&segment]), 30);
        assert_eq!(reserved_peak(&trace, 30), 60);
    }

    #[test]
    fn without_segments_the_start_is_the_least_that_fits() {
        let trace =
            [entry(Action::SegmentAlloc, 5), entry(Action::SegmentUnmap, 20), entry(Action::Alloc, 99)];
        assert_eq!(reserved_at_start(&trace, []), 15);
        assert_eq!(reserved_at_start(&[], []), 0);
    }
}
