//! What each pool holds, and how to return its free memory to the device (docs/caching-allocator.md 2.5).

use std::cmp::Reverse;

use serde::{Serialize, Serializer};

use super::segment_sum::{SegmentSum, sums_by};
use crate::{
    analysis::{AtSite, DeviceHistory, SegmentLayout, Site},
    history::Moment,
    words::PoolId,
};

/// The creator of a pool.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
pub enum PoolOf {
    /// The allocator.
    Default,
    /// The capture of a graph.
    Graph,
    /// The program: a `MemPool`.
    Program,
}

impl PoolOf {
    /// Returns the creator of a pool.
    #[must_use]
    pub fn id(pool: PoolId) -> PoolOf {
        match pool {
            PoolId::DEFAULT => PoolOf::Default,
            PoolId { graph: 0, .. } => PoolOf::Program,
            _ => PoolOf::Graph,
        }
    }

    /// Returns `default`, `graph` or `MemPool`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            PoolOf::Default => "default",
            PoolOf::Graph => "graph",
            PoolOf::Program => "MemPool",
        }
    }

    /// Returns how to return segments without a block to the device, in words.
    #[must_use]
    pub fn returned_by(self) -> &'static str {
        match self {
            PoolOf::Default => "torch.cuda.empty_cache() returns them",
            PoolOf::Graph => {
                "deleting the graphs and then calling torch.cuda.empty_cache() returns them, empty_cache \
                 alone does not; graphs captured with one pool (torch.cuda.graph(g, pool=first.pool())) \
                 share them"
            }
            PoolOf::Program => "deleting the MemPool returns them, torch.cuda.empty_cache() does not",
        }
    }
}

impl Serialize for PoolOf {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.name().serialize(serializer)
    }
}

/// The segments of one pool at a moment.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[non_exhaustive]
pub struct PoolUse {
    /// The pool. Segments whose pool is not known count as the default pool's.
    #[serde(rename = "pool_id")]
    pub pool: PoolId,
    /// Its creator.
    pub kind: PoolOf,
    /// What its segments hold.
    #[serde(flatten)]
    pub sum: SegmentSum,
}

impl DeviceHistory<'_> {
    /// Returns what the segments of each pool hold at a moment: of the default pool, then of private pools, most free
    /// bytes first.
    #[must_use]
    pub fn pool_uses(&self, moment: Moment) -> Vec<PoolUse> {
        self.uses_of_pools(&self.layout(moment))
    }

    pub(super) fn uses_of_pools(&self, segments: &[SegmentLayout<'_>]) -> Vec<PoolUse> {
        let sums = sums_by(self, segments, |range| Some(range.pool.unwrap_or_default()));
        let of_pool = |(pool, sum)| PoolUse { pool, kind: PoolOf::id(pool), sum };
        let mut uses: Vec<PoolUse> = sums.into_iter().map(of_pool).collect();
        uses.sort_by_key(|of| {
            let sum = &of.sum;
            (of.kind != PoolOf::Default, Reverse(sum.free_bytes), Reverse(sum.reserved_bytes), of.pool)
        });
        uses
    }
}

/// Returns a pool in words.
pub(crate) fn pool_name(pool: PoolId) -> String {
    match PoolOf::id(pool) {
        PoolOf::Default => "the default pool".to_owned(),
        PoolOf::Graph => format!("the pool {pool} of a captured graph"),
        PoolOf::Program => format!("the MemPool {pool}"),
    }
}

impl AtSite for PoolUse {
    fn site(&self) -> Option<&Site> {
        Some(&self.sum.site)
    }
}
