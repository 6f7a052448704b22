//! Finds memory that is free on several streams, reserved for one call. Each piece can only be used by requests on its
//! own stream (docs/caching-allocator.md 2.2), so a program that creates a stream each time reserves memory each time.

use std::{cmp::Reverse, collections::BTreeMap};

use serde::Serialize;

use super::segment_sum::sums_by;
use crate::{
    analysis::{AtSite, DeviceHistory, SegmentLayout, Site, SiteFinding, state::highest_levels},
    history::Moment,
    words::{Bytes, PoolId, SeededSet, StreamId},
};

/// The streams that keep free memory that was reserved for one call.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[non_exhaustive]
pub struct IdleStreams {
    /// The call.
    #[serde(skip)]
    pub site: Site,
    /// The number of streams.
    #[serde(rename = "streams")]
    pub n_streams: usize,
    /// The number of their segments.
    #[serde(rename = "segments")]
    pub n_segments: usize,
    /// The bytes of these.
    pub reserved_bytes: u64,
    /// The bytes of these that are free.
    pub free_bytes: u64,
    /// The most bytes of blocks that these streams had in use at once.
    pub most_in_use_bytes: u64,
}

/// Fewer streams may be for different work.
const FEWEST: usize = 3;

/// A stream is idle if less than this fraction of its memory is in use, one in this number.
const IDLE: u64 = 8;

/// Less than this fraction of what is reserved is not reported, one in this number.
const LEAST: u64 = 20;

impl DeviceHistory<'_> {
    /// Returns the calls for which several streams keep free memory at a moment, most free bytes first. Private pools
    /// do not count.
    #[must_use]
    pub fn idle_streams(&self, moment: Moment) -> Vec<IdleStreams> {
        self.idle_streams_of(&self.layout(moment), moment, None)
    }

    /// Like [`DeviceHistory::idle_streams`], without one of the streams.
    pub(crate) fn idle_streams_of(
        &self,
        segments: &[SegmentLayout<'_>],
        moment: Moment,
        but: Option<StreamId>,
    ) -> Vec<IdleStreams> {
        let is_of_default = |pool: Option<PoolId>| pool.is_none_or(|pool| pool == PoolId::DEFAULT);
        let sums = sums_by(self, segments, |range| is_of_default(range.pool).then_some(range.stream));
        let reserved_bytes =
            segments.iter().fold(0, |sum: u64, segment| sum.saturating_add(segment.range.bytes));
        let mut found: BTreeMap<Site, (IdleStreams, SeededSet<StreamId>)> = BTreeMap::new();
        for (stream, sum) in sums {
            let is_idle = sum.block_bytes < sum.reserved_bytes / IDLE && Some(stream) != but;
            if !is_idle {
                continue;
            }
            let (idle, streams) = found.entry(sum.site).or_insert_with_key(IdleStreams::of);
            idle.n_streams += 1;
            idle.n_segments += sum.n_segments;
            idle.reserved_bytes = idle.reserved_bytes.saturating_add(sum.reserved_bytes);
            idle.free_bytes = idle.free_bytes.saturating_add(sum.free_bytes);
            streams.insert(stream);
        }
        found.retain(|_, (idle, _)| idle.n_streams >= FEWEST && idle.free_bytes >= reserved_bytes / LEAST);
        let mut found: Vec<IdleStreams> = found
            .into_values()
            .map(|(idle, streams)| IdleStreams {
                most_in_use_bytes: self.most_in_use_on(&streams, moment),
                ..idle
            })
            .filter(|idle| idle.most_in_use_bytes <= idle.reserved_bytes / 2)
            .collect();
        found.sort_by_key(|idle| Reverse(idle.free_bytes));
        found
    }

    /// Returns the most bytes of blocks that streams had in use at once until a moment.
    fn most_in_use_on(&self, streams: &SeededSet<StreamId>, moment: Moment) -> u64 {
        let lives = self.lives().iter().filter(|life| life.from <= moment && streams.contains(&life.stream));
        let changes = lives.flat_map(|life| {
            let bytes = i128::from(life.bytes);
            [(life.from, bytes, ()), (life.until.min(Moment(moment.0.saturating_add(1))), -bytes, ())]
        });
        highest_levels(changes.collect()).get(&()).map_or(0, |(bytes, _)| *bytes)
    }
}

impl IdleStreams {
    /// Returns none of a call, with their set.
    fn of(site: &Site) -> (IdleStreams, SeededSet<StreamId>) {
        let none = IdleStreams {
            site: site.clone(),
            n_streams: 0,
            n_segments: 0,
            reserved_bytes: 0,
            free_bytes: 0,
            most_in_use_bytes: 0,
        };
        (none, SeededSet::default())
    }
}

impl SiteFinding for IdleStreams {
    fn finding(&self, by: &str) -> String {
        let each = self.free_bytes / self.n_streams.max(1) as u64;
        format!(
            "{} streams keep {} of free memory each, allocated by {by}, which only requests of the same \
             stream can use; at most {} was in use there at once",
            self.n_streams,
            Bytes(each),
            Bytes(self.most_in_use_bytes),
        )
    }

    fn advice(&self) -> Option<&'static str> {
        Some("create the streams once and reuse them, or use one stream for these calls")
    }
}

impl AtSite for IdleStreams {
    fn site(&self) -> Option<&Site> {
        Some(&self.site)
    }
}
