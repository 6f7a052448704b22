//! Memory that is held from the device and not used, between blocks and within them.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{
    layout::SegmentLayout,
    segments::SegmentRange,
    state::{DeviceHistory, Totals},
};
use crate::{
    history::{Life, Moment},
    words::PoolId,
};

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
    /// Private pools without a block in use, by their numbers.
    pub idle_pools: Vec<IdlePool>,
}

/// A private pool that no block uses. PyTorch 2.13 and earlier keep the memory of a captured graph's pool for ever if the
/// capture failed, and emptying the cache does not return it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[non_exhaustive]
pub struct IdlePool {
    /// The pool.
    pub pool: PoolId,
    /// The bytes of its segments.
    pub reserved_bytes: u64,
    /// The number of its segments.
    pub n_segments: usize,
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
            idle_pools: idle_pools(&segments),
        }
    }

    /// Returns the segments of which less than half is in use at a moment, those with the most free bytes first.
    pub(super) fn pinned_at(&self, moment: Moment) -> Vec<PinnedSegment> {
        all_pinned(&self.layout(moment))
    }

    /// Returns the private pools without a block in use at a moment, by their numbers.
    #[must_use]
    pub fn idle_pools(&self, moment: Moment) -> Vec<IdlePool> {
        idle_pools(&self.layout(moment))
    }
}

fn all_pinned(segments: &[SegmentLayout<'_>]) -> Vec<PinnedSegment> {
    let mut all: Vec<PinnedSegment> = segments.iter().filter_map(pinned).collect();
    all.sort_by_key(|pinned| (std::cmp::Reverse(pinned.free_bytes), pinned.range.address));
    all
}

fn idle_pools(segments: &[SegmentLayout<'_>]) -> Vec<IdlePool> {
    let mut pools: BTreeMap<PoolId, (bool, u64, usize)> = BTreeMap::new();
    for segment in segments {
        let private = segment.range.pool.filter(|pool| *pool != PoolId::DEFAULT);
        let Some(pool) = private else { continue };
        let (is_used, bytes, n) = pools.entry(pool).or_default();
        *is_used |= !segment.blocks.is_empty();
        *bytes = bytes.saturating_add(segment.range.bytes);
        *n += 1;
    }
    let idle = pools.into_iter().filter(|(_, (is_used, ..))| !is_used);
    idle.map(|(pool, (_, reserved_bytes, n_segments))| IdlePool { pool, reserved_bytes, n_segments })
        .collect()
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
