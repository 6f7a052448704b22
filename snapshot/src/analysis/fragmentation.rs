//! Memory that is held from the device and not used, between blocks and within them.

use serde::Serialize;

use super::{
    layout::SegmentLayout,
    segments::SegmentRange,
    state::{DeviceHistory, Totals},
};
use crate::history::{Life, Moment};

/// Unused memory over time, and where it is at one moment.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Fragmentation {
    /// The figures of the moment of the question.
    pub totals: Totals,
    /// The figures of the first moment with the most reserved bytes.
    pub most_reserved: Totals,
    /// The figures of the first moment with the most reserved bytes in no block.
    pub most_unused: Totals,
    /// The free bytes in segments at the moment.
    pub free_bytes: u64,
    /// The number of pieces that they are in.
    pub n_free: usize,
    /// The size of the largest piece in bytes.
    pub largest_free_bytes: u64,
    /// The free bytes in segments without blocks, which emptying the cache would return to the device.
    pub empty_bytes: u64,
    /// Segments of which less than half is in use, those with the most free bytes first.
    pub pinned: Vec<PinnedSegment>,
}

/// A segment that a few blocks keep from being returned.
#[derive(Clone, Copy, Debug, Serialize)]
#[non_exhaustive]
pub struct PinnedSegment {
    /// The segment.
    pub range: SegmentRange,
    /// Its free bytes.
    pub free_bytes: u64,
    /// The number of its blocks.
    pub n_blocks: usize,
    /// The bytes of its blocks.
    pub used_bytes: u64,
    /// The largest of its blocks.
    pub largest: Life,
}

impl DeviceHistory<'_> {
    /// Returns the memory that is held and not used: the gaps and the pinned segments of a moment, and
    /// the moments with the most of it.
    #[must_use]
    pub fn fragmentation(&self, moment: Moment) -> Fragmentation {
        let segments = self.layout(moment);
        let gaps = || segments.iter().flat_map(|segment| &segment.gaps).map(|gap| gap.bytes);
        let empty = segments.iter().filter(|segment| segment.blocks.is_empty());
        Fragmentation {
            totals: self.totals_at(moment),
            most_reserved: self.highest(|totals| totals.reserved_bytes),
            most_unused: self.highest(Totals::unused_bytes),
            free_bytes: gaps().fold(0, u64::saturating_add),
            n_free: gaps().count(),
            largest_free_bytes: gaps().max().unwrap_or(0),
            empty_bytes: empty.map(|segment| segment.range.bytes).fold(0, u64::saturating_add),
            pinned: all_pinned(&segments),
        }
    }

    /// Returns the segments of which less than half is in use at a moment, those with the most free bytes first.
    pub(super) fn pinned_at(&self, moment: Moment) -> Vec<PinnedSegment> {
        all_pinned(&self.layout(moment))
    }
}

fn all_pinned(segments: &[SegmentLayout<'_>]) -> Vec<PinnedSegment> {
    let mut all: Vec<PinnedSegment> = segments.iter().filter_map(pinned).collect();
    all.sort_by_key(|pinned| (std::cmp::Reverse(pinned.free_bytes), pinned.range.address));
    all
}

fn pinned(segment: &SegmentLayout<'_>) -> Option<PinnedSegment> {
    let (free_bytes, used_bytes) = (segment.free_bytes(), segment.used_bytes());
    let largest = segment.blocks.iter().max_by_key(|life| life.bytes)?;
    (free_bytes > used_bytes).then_some(PinnedSegment {
        range: segment.range,
        free_bytes,
        n_blocks: segment.blocks.len(),
        used_bytes,
        largest: **largest,
    })
}
