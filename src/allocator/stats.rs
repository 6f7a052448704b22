//! The 122 statistics of PyTorch 2.11 (`docs/caching-allocator.md` 7).
#![forbid(unsafe_code)]

use std::collections::BTreeMap;

/// The memory of a device, as `cudaMemGetInfo` reports it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MemInfo {
    /// Free bytes, which no process holds.
    pub free_bytes: u64,
    /// All bytes of the device.
    pub total_bytes: u64,
}

/// One statistic: its current value, its peak, and the sums of its changes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Stat {
    /// The current value.
    pub current: i64,
    /// The largest value since the peaks were last reset.
    pub peak: i64,
    /// The sum of all increases since the sums were last reset.
    pub allocated: i64,
    /// The sum of all decreases since the sums were last reset; after a reset
    /// it can exceed `allocated`.
    pub freed: i64,
}

impl Stat {
    /// Applies a net change.
    #[inline]
    pub(super) fn change(&mut self, by: i64) {
        self.current += by;
        self.peak = self.peak.max(self.current);
        // Saturating, because the sums grow as long as the program runs.
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

/// One statistic of all pools, and of the small and the large pools separately.
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

/// The statistics of an allocator, under PyTorch's names. Fields with `_bytes`
/// are in bytes, as is `max_split_size`; the rest are counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct MemoryStats {
    /// Allocated blocks.
    pub allocation: PoolStat,
    /// Segments taken from the device and not returned.
    pub segment: PoolStat,
    /// Blocks in use: allocated, or freed and waiting for a stream.
    pub active: PoolStat,
    /// Free blocks that are a part of a segment, which cannot be returned while other parts are in use.
    pub inactive_split: PoolStat,
    /// Bytes in allocated blocks.
    pub allocated_bytes: PoolStat,
    /// Bytes in segments taken from the device and not returned.
    pub reserved_bytes: PoolStat,
    /// Bytes in blocks in use.
    pub active_bytes: PoolStat,
    /// Bytes in free blocks that are part of a segment.
    pub inactive_split_bytes: PoolStat,
    /// Requested bytes of blocks in use.
    pub requested_bytes: PoolStat,
    /// Allocations of at least `max_split_size`.
    pub oversize_allocations: Stat,
    /// Segments of at least `max_split_size`.
    pub oversize_segments: Stat,
    /// Requests that were retried after all cached memory was released.
    pub num_alloc_retries: i64,
    /// Requests that failed.
    pub num_ooms: i64,
    /// Waits for all streams.
    pub num_sync_all_streams: i64,
    /// Calls that took a segment or pages from the device.
    pub num_device_alloc: i64,
    /// Calls that returned a segment or pages to the device.
    pub num_device_free: i64,
    /// The setting `max_split_bytes` when the allocator was created, in bytes; -1 if it was not set.
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

    /// Returns every number under its name in `torch.cuda.memory_stats()`.
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

/// Converts a size for the statistics.
#[inline]
pub(super) fn signed(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}
