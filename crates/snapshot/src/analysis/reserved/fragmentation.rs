//! Measures device memory that is held but not used, between blocks and within them.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{
    idle_streams::IdleStreams,
    pinned::{PinnedSegment, pinned},
    pool_use::{PoolOf, PoolUse},
    stream_use::StreamUse,
    wanted::Wanted,
};
use crate::{
    analysis::{DeviceHistory, SegmentLayout, Totals},
    history::Moment,
    words::PoolId,
};

/// Unused memory over time, and where it is at one moment.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Fragmentation {
    /// The figures of the moment of the question.
    pub totals: Totals,
    /// The figures of the first moment with the most reserved bytes.
    pub most_reserved: Totals,
    /// The figures of the first moment with the most reserved bytes outside blocks.
    pub most_unused: Totals,
    /// The free bytes in segments at the moment.
    pub free_bytes: u64,
    /// The number of pieces that they are in.
    pub n_free: usize,
    /// The size of the largest piece in bytes.
    pub largest_free_bytes: u64,
    /// The free bytes in segments without blocks.
    pub empty_bytes: u64,
    /// Those of them that emptying the cache would return to the device, which excludes private pools.
    pub returnable_bytes: u64,
    /// The request that failed, or the largest one after the moment; `None` if there is neither, or if segments that it
    /// could use have nothing free.
    pub wanted: Option<Wanted>,
    /// Segments with free bytes and with blocks that this request could use, or all of them without a request; most
    /// free bytes first.
    pub pinned: Vec<PinnedSegment>,
    /// What the segments of each stream hold.
    pub streams: Vec<StreamUse>,
    /// The calls for which several streams keep free memory.
    pub idle_streams: Vec<IdleStreams>,
    /// What the segments of each pool hold.
    pub pools: Vec<PoolUse>,
    /// Private pools without a block in use, by their numbers.
    pub idle_pools: Vec<IdlePool>,
}

/// A private pool that no block uses. PyTorch 2.13 and earlier keep the memory of a captured graph's pool for ever if
/// the capture failed; emptying the cache does not return it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[non_exhaustive]
pub struct IdlePool {
    /// The pool.
    #[serde(rename = "pool_id")]
    pub pool: PoolId,
    /// The bytes of its segments.
    pub reserved_bytes: u64,
    /// The number of its segments.
    #[serde(rename = "segments")]
    pub n_segments: usize,
}

impl DeviceHistory<'_> {
    /// Returns the memory that is held but not used: the gaps and the pinned segments of a moment, and the moments with
    /// the most of it.
    #[must_use]
    pub fn fragmentation(&self, moment: Moment) -> Fragmentation {
        let segments = self.layout(moment);
        let gaps = || segments.iter().flat_map(|segment| &segment.gaps).map(|gap| gap.bytes);
        let pools = self.uses_of_pools(&segments);
        let could_serve =
            |wanted: &Wanted| pinned(segments.iter().filter(|segment| wanted.is_served_by(&segment.range)));
        let served = self.wanted_at(moment).map(|wanted| (wanted, could_serve(&wanted)));
        let (wanted, pinned) = match served.filter(|(_, pinned)| !pinned.is_empty()) {
            Some((wanted, pinned)) => (Some(wanted), pinned),
            None => (None, pinned(segments.iter())),
        };
        let empty = segments.iter().filter(|segment| segment.blocks.is_empty());
        Fragmentation {
            totals: self.totals_at(moment),
            most_reserved: self.highest(|totals| totals.reserved_bytes),
            most_unused: self.highest(Totals::unused_bytes),
            free_bytes: gaps().fold(0, u64::saturating_add),
            n_free: gaps().count(),
            largest_free_bytes: gaps().max().unwrap_or(0),
            empty_bytes: empty.map(|segment| segment.range.bytes).fold(0, u64::saturating_add),
            returnable_bytes: pools
                .iter()
                .find(|of| of.kind == PoolOf::Default)
                .map_or(0, |of| of.sum.empty_bytes),
            wanted,
            pinned,
            streams: self.uses_of_streams(&segments),
            idle_streams: self.idle_streams_of(&segments, moment, None),
            pools,
            idle_pools: idle_pools(&segments),
        }
    }

    /// Returns the private pools without a block in use at a moment, by their numbers.
    #[must_use]
    pub fn idle_pools(&self, moment: Moment) -> Vec<IdlePool> {
        idle_pools(&self.layout(moment))
    }
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
