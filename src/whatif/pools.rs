//! The private pools of requests, which traces before PyTorch 2.12 do not name.

use std::collections::BTreeMap;

use memreel_snapshot::{
    history::{ByDevice, Joining, Ranges, Span, change, insert_free, pool_of_entry},
    model::{Snapshot, TraceEntry},
    words::{Address, DeviceId, PoolId},
};

/// The most private pools that a replay has; requests to further ones use the default pool.
pub(super) const MOST: usize = 1024;

/// Finds the private pool of an entry.
pub(super) struct Pools {
    pub(super) ids: Vec<PoolId>,
    /// The number of each pool, counted from 1; 0 for the pools beyond [`MOST`].
    numbers: BTreeMap<PoolId, u16>,
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
    pub(super) fn new(records: &ByDevice<'_>, device: DeviceId, trace: &[TraceEntry]) -> Pools {
        let snapshot = records.snapshot();
        let has_pool_ids = trace.iter().any(|entry| pool_of_entry(snapshot, entry).is_some());
        let mut pools = Pools { ids: Vec::new(), numbers: BTreeMap::new(), held: Vec::new(), has_pool_ids };
        let releases = Releases::new(trace);
        let segments = records.segments(device).map(|(_, segment)| segment);
        for segment in segments.filter(|segment| segment.pool != PoolId::DEFAULT) {
            let (start, end) = (segment.address, segment.address.saturating_add(segment.total_size));
            let pool = pools.number(segment.pool);
            pools.held.push(HeldSegment { start, end, pool, last_release: None });
        }
        if has_pool_ids {
            trace.iter().filter_map(|entry| pool_of_entry(snapshot, entry)).for_each(|pool| {
                pools.number(pool);
            });
        }
        // Of overlapping segments, which only a broken file has, the first keeps its place.
        let mut taken = Ranges::default();
        pools
            .held
            .retain(|held| insert_free(&mut taken, held.start, held.end - held.start, 0, Joining::Apart));
        for held in &mut pools.held {
            held.last_release = releases.last_in(held.start, held.end);
        }
        pools.held.sort_unstable();
        pools
    }

    /// Returns the number of a pool, assigning one at its first use; the default pool is 0.
    pub(super) fn number(&mut self, pool: PoolId) -> u16 {
        if pool == PoolId::DEFAULT {
            return 0;
        }
        if let Some(number) = self.numbers.get(&pool) {
            return *number;
        }
        let mut number = 0;
        if self.ids.len() < MOST {
            self.ids.push(pool);
            number = u16::try_from(self.ids.len()).unwrap_or(0);
        }
        self.numbers.insert(pool, number);
        number
    }

    /// Returns the number of a pool that was already seen.
    pub(super) fn known(&self, pool: PoolId) -> u16 {
        self.numbers.get(&pool).copied().unwrap_or(0)
    }

    /// Returns the number of private pools beyond [`MOST`], which count as the default one.
    pub(super) fn n_shared(&self) -> usize {
        self.numbers.len() - self.ids.len()
    }

    /// Returns the number of an entry's pool: that of its `pool_id`, or of the segment that covers its address from
    /// this entry to the end.
    pub(super) fn of_entry(&self, snapshot: &Snapshot, at: usize, entry: &TraceEntry) -> u16 {
        if self.ids.is_empty() {
            return 0;
        }
        if self.has_pool_ids {
            let pool = pool_of_entry(snapshot, entry);
            return pool.and_then(|pool| self.numbers.get(&pool).copied()).unwrap_or(0);
        }
        let n_before = self.held.partition_point(|held| held.start <= entry.address);
        let held = n_before.checked_sub(1).map(|index| self.held[index]);
        let is_there = |held: &HeldSegment| {
            entry.address < held.end && held.last_release.is_none_or(|release| at > release)
        };
        held.filter(is_there).map_or(0, |held| held.pool)
    }
}

/// The entries that returned memory to the device, by address.
struct Releases {
    /// The ranges with the last entry that returned them; no address is in two ranges.
    last: Ranges<usize>,
}

impl Releases {
    fn new(trace: &[TraceEntry]) -> Releases {
        let mut last = Ranges::default();
        for (number, entry) in trace.iter().enumerate().filter(|(_, entry)| change(entry) < 0) {
            if entry.address < entry.end() {
                last.carve(entry.address, entry.end());
                last.insert(entry.address, Span { end: entry.end(), value: number });
            }
        }
        Releases { last }
    }

    /// Returns the last entry that returned any part of a range.
    fn last_in(&self, start: Address, end: Address) -> Option<usize> {
        let before = self.last.at(start).into_iter();
        let inside = self.last.beginning_in(start, end);
        before.chain(inside).map(|(_, span)| span.value).max()
    }
}
