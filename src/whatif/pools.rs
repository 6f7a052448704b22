//! The private pools of requests, which traces before PyTorch 2.12 do not name.

use crate::{
    event::{Address, DeviceId, PoolId},
    history::{change, pool_of_entry, segments_of},
    snapshot::{Snapshot, TraceEntry},
};

/// Finds the private pool of an entry.
pub(super) struct Pools {
    pub(super) ids: Vec<PoolId>,
    /// The segments of private pools at the end, by address.
    held: Vec<HeldSegment>,
    /// Whether entries have a `pool_id` (PyTorch 2.12 and later).
    has_pool_ids: bool,
}

/// A segment of a private pool at the end of the trace.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct HeldSegment {
    start: Address,
    end: Address,
    pool: u16,
    /// The last entry that returned any part of its range to the device.
    last_release: Option<usize>,
}

impl Pools {
    pub(super) fn new(snapshot: &Snapshot, device: DeviceId, trace: &[TraceEntry]) -> Pools {
        let has_pool_ids = trace.iter().any(|entry| pool_of_entry(snapshot, entry).is_some());
        let mut pools = Pools { ids: Vec::new(), held: Vec::new(), has_pool_ids };
        let segments = segments_of(snapshot, device).map(|(_, segment)| segment);
        for segment in segments.filter(|segment| segment.pool != PoolId::DEFAULT) {
            let (start, end) = (segment.address, segment.address.saturating_add(segment.total_size));
            let overlaps =
                |entry: &TraceEntry| change(entry) < 0 && entry.address < end && entry.end() > start;
            let pool = pools.number(segment.pool);
            pools.held.push(HeldSegment { start, end, pool, last_release: trace.iter().rposition(overlaps) });
        }
        if has_pool_ids {
            trace.iter().filter_map(|entry| pool_of_entry(snapshot, entry)).for_each(|pool| {
                pools.number(pool);
            });
        }
        pools.held.sort_unstable();
        pools
    }

    /// Returns the number of a pool, a new one if it is the first use of the pool; the default pool is 0.
    pub(super) fn number(&mut self, pool: PoolId) -> u16 {
        if pool == PoolId::DEFAULT {
            return 0;
        }
        let index = self.ids.iter().position(|id| *id == pool).unwrap_or_else(|| {
            self.ids.push(pool);
            self.ids.len() - 1
        });
        // Beyond 65,535 pools the others share the default one.
        u16::try_from(index + 1).unwrap_or(0)
    }

    /// Returns the number of an entry's pool: that of its `pool_id`, or of the segment that is at its address
    /// from this entry to the end.
    pub(super) fn of_entry(&self, snapshot: &Snapshot, at: usize, entry: &TraceEntry) -> u16 {
        if self.ids.is_empty() {
            return 0;
        }
        if self.has_pool_ids {
            let pool = pool_of_entry(snapshot, entry);
            let index = pool.and_then(|pool| self.ids.iter().position(|id| *id == pool));
            return index.map_or(0, |index| u16::try_from(index + 1).unwrap_or(0));
        }
        let n_before = self.held.partition_point(|held| held.start <= entry.address);
        let held = n_before.checked_sub(1).map(|index| self.held[index]);
        let is_there = |held: &HeldSegment| {
            entry.address < held.end && held.last_release.is_none_or(|release| at > release)
        };
        held.filter(is_there).map_or(0, |held| held.pool)
    }
}
