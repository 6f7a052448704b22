//! Finds the sites whose memory belongs to captured graphs.

use super::pool_use::PoolOf;
use crate::{
    analysis::{DeviceHistory, Pools, Site, sites::SameCalls},
    history::{Moment, pool_of_entry},
    words::{PoolId, SeededMap, SeededSet},
};

impl DeviceHistory<'_> {
    /// Returns the sites that hold mostly memory of captured graphs at a moment. A graph is captured once and keeps its
    /// memory as long as it lives, so many of them are not a leak.
    pub(crate) fn captured_sites(&self, moment: Moment) -> SeededSet<Site> {
        let is_of_graph = |pool: PoolId| PoolOf::id(pool) == PoolOf::Graph;
        let named = || self.entries().iter().filter_map(|entry| pool_of_entry(self.snapshot(), entry));
        if !self.segments().iter().any(|segment| is_of_graph(segment.pool)) && !named().any(is_of_graph) {
            return SeededSet::default();
        }
        let (pools, mut calls) = (Pools::new(self), SameCalls::new(self));
        // The bytes of others, and of graphs.
        let mut sums: SeededMap<Site, [u64; 2]> = SeededMap::default();
        for life in self.lives_at(moment) {
            let of = usize::from(pools.of(life).is_some_and(is_of_graph));
            let sum = &mut sums.entry(calls.site(&Site::from_life(life))).or_default()[of];
            *sum = sum.saturating_add(life.represented_bytes);
        }
        sums.into_iter().filter(|(_, [others, of_graphs])| of_graphs > others).map(|(site, _)| site).collect()
    }
}
