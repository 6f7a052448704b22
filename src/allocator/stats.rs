//! The 122 statistics of PyTorch 2.11 (caching-allocator.md 7).
#![forbid(unsafe_code)]

use std::collections::BTreeMap;

/// The memory of a device, as `cudaMemGetInfo` reports it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MemInfo {
    /// Bytes that no process holds.
    pub free_bytes: u64,
    /// All bytes of the device.
    pub total_bytes: u64,
}

/// One counted quantity.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Stat {
    /// Now.
    pub current: i64,
    /// The most since the peaks were last reset.
    pub peak: i64,
    /// The sum of all increases since the sums were last reset.
    pub allocated: i64,
    /// The sum of all decreases since the sums were last reset; after a reset
    /// it can exceed `allocated`.
    pub freed: i64,
}

impl Stat {
    /// A net change; zero leaves no trace in the sums.
    #[inline]
    pub(super) fn change(&mut self, by: i64) {
        self.current += by;
        self.peak = self.peak.max(self.current);
        // The sums only grow, for as long as a program runs.
        if by > 0 {
            self.allocated = self.allocated.saturating_add(by);
        } else {
            self.freed = self.freed.saturating_sub(by);
        }
    }

    fn each(self) -> [(&'static str, i64); 4] {
        let Stat { current, peak, allocated, freed } = self;
        [("allocated", allocated), ("current", current), ("freed", freed), ("peak", peak)]
    }
}

/// A quantity in all, and in the small and the large pools apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct PoolStat {
    /// In all pools.
    pub all: Stat,
    /// In small pools.
    pub small_pool: Stat,
    /// In large pools.
    pub large_pool: Stat,
}

/// What an allocator counts. Fields are PyTorch's; `_bytes` says bytes, the rest are counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct MemoryStats {
    /// Blocks the program holds.
    pub allocation: PoolStat,
    /// Segments held from the device.
    pub segment: PoolStat,
    /// Blocks in use, those that wait for a stream included.
    pub active: PoolStat,
    /// Free blocks that are a part of a segment and keep it from going back.
    pub inactive_split: PoolStat,
    /// In blocks the program holds.
    pub allocated_bytes: PoolStat,
    /// In segments held from the device.
    pub reserved_bytes: PoolStat,
    /// In blocks in use.
    pub active_bytes: PoolStat,
    /// In free blocks that are a part of a segment.
    pub inactive_split_bytes: PoolStat,
    /// Asked for, by blocks in use.
    pub requested_bytes: PoolStat,
    /// Allocations of at least `max_split_size`.
    pub oversize_allocations: Stat,
    /// Segments of at least `max_split_size`.
    pub oversize_segments: Stat,
    /// Requests that succeeded or failed after everything cached was released.
    pub num_alloc_retries: i64,
    /// Requests that failed.
    pub num_ooms: i64,
    /// Times that every stream was waited for.
    pub num_sync_all_streams: i64,
    /// Segments taken from the device.
    pub num_device_alloc: i64,
    /// Segments given back to it.
    pub num_device_free: i64,
    /// The largest block that may be split when the allocator was made; -1 is any.
    pub max_split_size: i64,
}

impl MemoryStats {
    fn arrays(&self) -> [(&'static str, PoolStat); 9] {
        [
            ("allocation", self.allocation),
            ("segment", self.segment),
            ("active", self.active),
            ("inactive_split", self.inactive_split),
            ("allocated_bytes", self.allocated_bytes),
            ("reserved_bytes", self.reserved_bytes),
            ("active_bytes", self.active_bytes),
            ("inactive_split_bytes", self.inactive_split_bytes),
            ("requested_bytes", self.requested_bytes),
        ]
    }

    fn counters(&self) -> [(&'static str, i64); 6] {
        [
            ("max_split_size", self.max_split_size),
            ("num_alloc_retries", self.num_alloc_retries),
            ("num_device_alloc", self.num_device_alloc),
            ("num_device_free", self.num_device_free),
            ("num_ooms", self.num_ooms),
            ("num_sync_all_streams", self.num_sync_all_streams),
        ]
    }

    /// Every number under the name that `torch.cuda.memory_stats()` gives it.
    ///
    /// ```
    /// let stats = memreel::Reel::builder().build()?.allocator(0)?.stats().flatten();
    /// assert_eq!(stats.len(), 122);
    /// assert_eq!(stats["allocated_bytes.all.current"], 0);
    /// # Ok::<(), memreel::Error>(())
    /// ```
    #[must_use]
    pub fn flatten(&self) -> BTreeMap<String, i64> {
        let mut flat = BTreeMap::new();
        for (name, stat) in self.arrays() {
            for (pool, stat) in
                [("all", stat.all), ("small_pool", stat.small_pool), ("large_pool", stat.large_pool)]
            {
                flat.extend(stat.each().map(|(what, number)| (format!("{name}.{pool}.{what}"), number)));
            }
        }
        for (name, stat) in [
            ("oversize_allocations", self.oversize_allocations),
            ("oversize_segments", self.oversize_segments),
        ] {
            flat.extend(stat.each().map(|(what, number)| (format!("{name}.{what}"), number)));
        }
        flat.extend(self.counters().map(|(name, number)| (name.to_owned(), number)));
        flat
    }
}

/// A size as the statistics count it.
#[inline]
pub(super) fn signed(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}
