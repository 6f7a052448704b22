//! Which private pool a request went to, which older traces do not say themselves.

use crate::{
    event::{Address, DeviceId, PoolId},
    history::{change, pool_of_entry, segments_of},
    snapshot::{Snapshot, TraceEntry},
};

/// Which private pool an entry belongs to.
pub(super) struct Pools {
    pub(super) ids: Vec<PoolId>,
    /// Segments of private pools at the end: start, end, pool, and the last entry that gave any of it back.
    held: Vec<(Address, Address, u16, Option<usize>)>,
    /// Whether entries say it themselves (PyTorch 2.12 and later).
    is_told: bool,
}

impl Pools {
    pub(super) fn new(snapshot: &Snapshot, device: DeviceId, trace: &[TraceEntry]) -> Pools {
        let is_told = trace.iter().any(|entry| pool_of_entry(snapshot, entry).is_some());
        let mut pools = Pools { ids: Vec::new(), held: Vec::new(), is_told };
        let segments = segments_of(snapshot, device).map(|(_, segment)| segment);
        for segment in segments.filter(|segment| segment.pool != PoolId::DEFAULT) {
            let (start, end) = (segment.address, segment.address.saturating_add(segment.total_size));
            let overlaps = |entry: &TraceEntry| {
                change(entry) < 0 && entry.address < end && entry.address.saturating_add(entry.size) > start
            };
            let number = pools.number(segment.pool);
            pools.held.push((start, end, number, trace.iter().rposition(overlaps)));
        }
        if is_told {
            trace.iter().filter_map(|entry| pool_of_entry(snapshot, entry)).for_each(|pool| {
                pools.number(pool);
            });
        }
        pools.held.sort_unstable();
        pools
    }

    /// The number of a pool, made if it is new; the default pool is 0.
    pub(super) fn number(&mut self, pool: PoolId) -> u16 {
        if pool == PoolId::DEFAULT {
            return 0;
        }
        let index = self.ids.iter().position(|id| *id == pool).unwrap_or_else(|| {
            self.ids.push(pool);
            self.ids.len() - 1
        });
        // Beyond 65,535 pools the rest share the default one.
        u16::try_from(index + 1).unwrap_or(0)
    }

    /// The pool of an entry: its own `pool_id`, or that of the segment that has been at its address since.
    pub(super) fn of(&self, snapshot: &Snapshot, at: usize, entry: &TraceEntry) -> u16 {
        if self.ids.is_empty() {
            return 0;
        }
        if self.is_told {
            let told =
                pool_of_entry(snapshot, entry).and_then(|pool| self.ids.iter().position(|id| *id == pool));
            return told.map_or(0, |index| u16::try_from(index + 1).unwrap_or(0));
        }
        let before = self.held.partition_point(|(start, ..)| *start <= entry.address);
        let held = before.checked_sub(1).map(|index| self.held[index]);
        let stands = |(_, end, _, last): &(Address, Address, u16, Option<usize>)| {
            entry.address < *end && last.is_none_or(|last| at > last)
        };
        held.filter(stands).map_or(0, |(_, _, number, _)| number)
    }
}
