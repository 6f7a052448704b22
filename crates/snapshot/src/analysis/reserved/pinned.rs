//! Finds segments that blocks keep from being returned to the device, or from being free in one piece.

use std::cmp::Reverse;

use serde::Serialize;

use super::wanted::Wanted;
use crate::{
    analysis::{DeviceHistory, SegmentLayout, SegmentRange},
    history::{Life, Moment},
    words::{PoolKind, torch::SMALL_MAX_BYTES},
};

/// A segment that blocks keep from being returned.
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
    /// Returns the segments with free bytes and with blocks at a moment that a request could use, or all of them; most
    /// free bytes first.
    #[must_use]
    pub fn pinned_at(&self, moment: Moment, wanted: Option<&Wanted>) -> Vec<PinnedSegment> {
        let segments = self.layout(moment);
        pinned(
            segments.iter().filter(|segment| wanted.is_none_or(|wanted| wanted.is_served_by(&segment.range))),
        )
    }
}

/// Returns those of the given segments that have free bytes and blocks, most free bytes first.
pub(crate) fn pinned<'s, 'a: 's>(
    segments: impl Iterator<Item = &'s SegmentLayout<'a>>,
) -> Vec<PinnedSegment> {
    let mut all: Vec<PinnedSegment> = segments.filter_map(of_segment).collect();
    all.sort_by_key(|pinned| (Reverse(pinned.free_bytes), pinned.range.address));
    all
}

fn of_segment(segment: &SegmentLayout<'_>) -> Option<PinnedSegment> {
    let (free_bytes, used_bytes) = (segment.free_bytes(), segment.used_bytes());
    let largest = segment.blocks.iter().max_by_key(|life| life.bytes)?;
    // A remainder of this size is useless in the large pool: it is not even split off (docs/caching-allocator.md 2.4).
    let least = if segment.range.kind == Some(PoolKind::Small) { 0 } else { SMALL_MAX_BYTES };
    (free_bytes > least).then_some(PinnedSegment {
        range: segment.range,
        free_bytes,
        n_blocks: segment.blocks.len(),
        used_bytes,
        largest: **largest,
    })
}
