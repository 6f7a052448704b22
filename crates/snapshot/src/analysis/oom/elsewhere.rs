//! Finds free memory that a request could not use: on other streams, in the other kind of pool, in other pools.

use std::{cmp::Reverse, collections::BTreeMap};

use super::OomReport;
use crate::{
    analysis::{DeviceHistory, IdleStreams, PinnedSegment, reserved::pinned},
    words::{PoolId, SeededSet, StreamId},
};

/// What was free elsewhere.
#[derive(Clone, Debug, Default)]
pub(super) struct Elsewhere {
    /// The bytes in segments of the request's pool on other streams, and the number of these streams.
    pub(super) on_streams: u64,
    pub(super) n_streams: usize,
    /// The bytes in segments of its stream and pool, but of the other kind.
    pub(super) of_other_kind: u64,
    /// The bytes in other pools, and in their segments without a block, largest first.
    pub(super) in_pools: Vec<(PoolId, u64)>,
    /// The bytes in empty segments of the request's own pool, if that is private.
    pub(super) empty_in_own_pool: u64,
    /// The streams that keep memory of one call.
    pub(super) idle: Vec<IdleStreams>,
    /// What pins the segments of other streams.
    pub(super) pinned: Vec<PinnedSegment>,
}

impl Elsewhere {
    /// Examines the moment of a report.
    pub(super) fn of(history: &DeviceHistory<'_>, report: &OomReport) -> Elsewhere {
        let moment = report.totals.moment;
        let segments = history.layout(moment);
        let mut found = Elsewhere::default();
        let Some(wanted) = history.wanted_by(report.entry) else { return found };
        let (mut streams, mut pools) = (SeededSet::<StreamId>::default(), BTreeMap::<PoolId, u64>::new());
        let is_private = wanted.pool.is_some_and(|pool| pool != PoolId::DEFAULT);
        for segment in segments.iter().filter(|segment| segment.free_bytes() > 0) {
            let range = &segment.range;
            let sum = if wanted.is_served_by(range) {
                if !is_private || !segment.blocks.is_empty() {
                    continue;
                }
                &mut found.empty_in_own_pool
            } else if !wanted.is_in_pool(range) {
                pools.entry(range.pool.unwrap_or_default()).or_default()
            } else if range.stream != wanted.stream {
                streams.insert(range.stream);
                &mut found.on_streams
            } else {
                &mut found.of_other_kind
            };
            *sum = sum.saturating_add(segment.free_bytes());
        }
        found.n_streams = streams.len();
        found.in_pools = pools.into_iter().collect();
        found.in_pools.sort_by_key(|(pool, bytes)| (Reverse(*bytes), *pool));
        found.idle = history.idle_streams_of(&segments, moment, Some(wanted.stream));
        let of_others = |range: &_| wanted.is_in_pool(range) && range.stream != wanted.stream;
        found.pinned = pinned(segments.iter().filter(|segment| of_others(&segment.range)));
        found
    }
}
