//! Memory that is held from the device and not used: between blocks, and within them.

use super::{
    layout::SegmentLayout,
    segments::SegmentRange,
    state::{DeviceHistory, Totals},
};
use crate::history::{Life, Moment};

/// Waste over time, and where it is at one moment.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Fragmentation {
    /// The moment that is looked into.
    pub moment: Moment,
    /// Its figures.
    pub totals: Totals,
    /// The first moment at which most was reserved.
    pub most_reserved: (Moment, Totals),
    /// The first moment at which most was reserved and in no block.
    pub most_unused: (Moment, Totals),
    /// Free bytes in segments at the moment.
    pub free_bytes: u64,
    /// In how many pieces.
    pub n_free: usize,
    /// The largest piece.
    pub largest_free_bytes: u64,
    /// Of the free bytes, those in segments without any block: what a program would get back by
    /// emptying the cache.
    pub empty_bytes: u64,
    /// Segments of which less than half is in use, the most wasteful first.
    pub pinned: Vec<PinnedSegment>,
}

/// A segment that a few blocks keep.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct PinnedSegment {
    /// The segment.
    pub range: SegmentRange,
    /// Its free bytes.
    pub free_bytes: u64,
    /// How many blocks keep it.
    pub n_blocks: usize,
    /// Their bytes.
    pub used_bytes: u64,
    /// The largest of them.
    pub largest: Life,
}

impl DeviceHistory<'_> {
    /// Returns what is held from the device and unused: the gaps and the pinned segments of a moment,
    /// and the moments of the most waste.
    #[must_use]
    pub fn fragmentation(&self, moment: Moment) -> Fragmentation {
        fragmentation(self, moment)
    }
}

fn fragmentation(history: &DeviceHistory<'_>, moment: Moment) -> Fragmentation {
    let segments = history.layout(moment);
    let gaps = || segments.iter().flat_map(|segment| &segment.gaps).map(|gap| gap.bytes);
    let empty = segments.iter().filter(|segment| segment.blocks.is_empty());
    let mut pinned: Vec<PinnedSegment> = segments.iter().filter_map(pinned).collect();
    pinned.sort_by_key(|pinned| (std::cmp::Reverse(pinned.free_bytes), pinned.range.address));
    Fragmentation {
        moment,
        totals: history.totals_at(moment),
        most_reserved: history.highest(|totals| totals.reserved_bytes),
        most_unused: history.highest(Totals::unused_bytes),
        free_bytes: gaps().fold(0, u64::saturating_add),
        n_free: gaps().count(),
        largest_free_bytes: gaps().max().unwrap_or(0),
        empty_bytes: empty.map(|segment| segment.range.bytes).fold(0, u64::saturating_add),
        pinned,
    }
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
