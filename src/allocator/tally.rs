//! Tallies: the internal form of the statistics, in which changes are cheap.
//!
//! An allocation and its free change a dozen statistics. Sums over both kinds
//! of pool are computed when they are read; only the peak of a sum is kept,
//! because it is not the sum of the peaks.
#![forbid(unsafe_code)]

use super::stats::{MemoryStats, PoolStat, Stat, signed};
use memreel_snapshot::words::PoolKind;

/// One counted quantity, in the small and the large pools.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Tally {
    /// By [`PoolKind`].
    kinds: [Sums; 2],
    all: Level,
}

/// A value, stored as its distance below the peak: an increase makes a new peak exactly when the distance becomes
/// negative.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Level {
    peak: i64,
    below_peak: i64,
}

impl Level {
    #[inline]
    fn rise(&mut self, by: u64) -> bool {
        self.below_peak = self.below_peak.wrapping_sub_unsigned(by);
        self.below_peak < 0
    }

    #[inline]
    fn fall(&mut self, by: u64) {
        self.below_peak = self.below_peak.wrapping_add_unsigned(by);
    }

    fn current(self) -> i64 {
        self.peak - self.below_peak
    }

    /// Raises the peak to the current value if that is higher.
    fn settle(&mut self) {
        if self.below_peak < 0 {
            self.reset();
        }
    }

    fn reset(&mut self) {
        *self = Level { peak: self.current(), below_peak: 0 };
    }
}

/// A [`Stat`] whose decreases are not counted: they follow from the value at the last reset, the increases since, and
/// the current value.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Sums {
    /// The sum of all increases; it wraps only after 2^64 bytes.
    allocated: u64,
    /// The value when the sums were last reset.
    at_reset: i64,
    level: Level,
}

impl Sums {
    fn stat(&self) -> Stat {
        let Sums { level, allocated, at_reset } = *self;
        let current = level.current();
        let freed = allocated.wrapping_add_signed(at_reset).wrapping_sub(current.cast_unsigned());
        Stat { current, peak: level.peak, allocated: signed(allocated), freed: signed(freed) }
    }
}

impl Tally {
    /// Counts `more` and `less` as one net change; a net change of zero does not change the sums.
    #[inline]
    pub(super) fn change(&mut self, kind: PoolKind, more: u64, less: u64) {
        if more > less {
            self.add(kind, more - less);
        } else {
            self.subtract(kind, less - more);
        }
    }

    #[inline]
    pub(super) fn add(&mut self, kind: PoolKind, by: u64) {
        let part = &mut self.kinds[kind as usize];
        part.allocated = part.allocated.wrapping_add(by);
        let (is_new, is_new_of_all) = (part.level.rise(by), self.all.rise(by));
        if is_new || is_new_of_all {
            self.settle();
        }
    }

    /// Raises the peaks. Out of line, because new peaks are rare.
    #[cold]
    fn settle(&mut self) {
        self.kinds.iter_mut().for_each(|part| part.level.settle());
        self.all.settle();
    }

    /// Subtracts from the value, which cannot change a peak.
    #[inline]
    pub(super) fn subtract(&mut self, kind: PoolKind, by: u64) {
        self.kinds[kind as usize].level.fall(by);
        self.all.fall(by);
    }

    /// Returns the current value in all pools.
    pub(super) fn current(&self) -> i64 {
        self.all.current()
    }

    fn stat(&self) -> PoolStat {
        let [small_pool, large_pool] = self.kinds.map(|part| part.stat());
        let all = Stat {
            current: self.all.current(),
            peak: self.all.peak,
            allocated: small_pool.allocated.saturating_add(large_pool.allocated),
            freed: small_pool.freed.saturating_add(large_pool.freed),
        };
        PoolStat { all, small_pool, large_pool }
    }

    fn reset_peak(&mut self) {
        self.kinds.iter_mut().for_each(|part| part.level.reset());
        self.all.reset();
    }

    fn reset_accumulated(&mut self) {
        self.kinds.iter_mut().for_each(|part| (part.allocated, part.at_reset) = (0, part.level.current()));
    }
}

/// The tallies of [`MemoryStats`], under the same names.
#[derive(Debug, Default)]
pub(super) struct Tallies {
    pub(super) allocation: Tally,
    pub(super) segment: Tally,
    pub(super) active: Tally,
    pub(super) inactive_split: Tally,
    pub(super) allocated_bytes: Tally,
    pub(super) reserved_bytes: Tally,
    pub(super) active_bytes: Tally,
    pub(super) inactive_split_bytes: Tally,
    pub(super) requested_bytes: Tally,
    pub(super) oversize_allocations: Stat,
    pub(super) oversize_segments: Stat,
    pub(super) num_alloc_retries: i64,
    pub(super) num_ooms: i64,
    pub(super) num_sync_all_streams: i64,
    pub(super) num_device_alloc: i64,
    pub(super) num_device_free: i64,
    max_split_size: i64,
}

impl Tallies {
    pub(super) fn new(max_split_bytes: Option<u64>) -> Tallies {
        Tallies { max_split_size: max_split_bytes.map_or(-1, signed), ..Tallies::default() }
    }

    pub(super) fn stats(&self) -> MemoryStats {
        MemoryStats {
            allocation: self.allocation.stat(),
            segment: self.segment.stat(),
            active: self.active.stat(),
            inactive_split: self.inactive_split.stat(),
            allocated_bytes: self.allocated_bytes.stat(),
            reserved_bytes: self.reserved_bytes.stat(),
            active_bytes: self.active_bytes.stat(),
            inactive_split_bytes: self.inactive_split_bytes.stat(),
            requested_bytes: self.requested_bytes.stat(),
            oversize_allocations: self.oversize_allocations,
            oversize_segments: self.oversize_segments,
            num_alloc_retries: self.num_alloc_retries,
            num_ooms: self.num_ooms,
            num_sync_all_streams: self.num_sync_all_streams,
            num_device_alloc: self.num_device_alloc,
            num_device_free: self.num_device_free,
            max_split_size: self.max_split_size,
        }
    }

    fn tallies(&mut self) -> [&mut Tally; 9] {
        [
            &mut self.allocation,
            &mut self.segment,
            &mut self.active,
            &mut self.inactive_split,
            &mut self.allocated_bytes,
            &mut self.reserved_bytes,
            &mut self.active_bytes,
            &mut self.inactive_split_bytes,
            &mut self.requested_bytes,
        ]
    }

    /// Resets every peak to the current value (`docs/caching-allocator.md` 7.3).
    pub(super) fn reset_peak(&mut self) {
        self.tallies().into_iter().for_each(Tally::reset_peak);
        for stat in [&mut self.oversize_allocations, &mut self.oversize_segments] {
            stat.peak = stat.current;
        }
    }

    /// Resets every sum and counter to zero (`docs/caching-allocator.md` 7.3).
    pub(super) fn reset_accumulated(&mut self) {
        self.tallies().into_iter().for_each(Tally::reset_accumulated);
        for stat in [&mut self.oversize_allocations, &mut self.oversize_segments] {
            (stat.allocated, stat.freed) = (0, 0);
        }
        self.num_alloc_retries = 0;
        self.num_ooms = 0;
        self.num_sync_all_streams = 0;
        self.num_device_alloc = 0;
        self.num_device_free = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tests small and large pools that peak at different times.
    #[test]
    fn the_peak_of_all_is_not_the_sum_of_peaks() {
        let mut tally = Tally::default();
        for (kind, more, less) in [
            (PoolKind::Small, 5, 0),
            (PoolKind::Small, 3, 7),
            (PoolKind::Large, 4, 1),
            (PoolKind::Large, 2, 2),
            (PoolKind::Large, 0, 2),
        ] {
            tally.change(kind, more, less);
        }
        let stat = |current, peak, allocated, freed| Stat { current, peak, allocated, freed };
        let PoolStat { all, small_pool, large_pool } = tally.stat();
        assert_eq!(all, stat(2, 5, 8, 6));
        assert_eq!(small_pool, stat(1, 5, 5, 4));
        assert_eq!(large_pool, stat(1, 3, 3, 2));
    }

    #[test]
    fn resets_leave_what_is_now() {
        let mut tallies = Tallies::new(Some(7));
        tallies.active.add(PoolKind::Small, 5);
        tallies.active.add(PoolKind::Large, 5);
        tallies.active.subtract(PoolKind::Small, 3);
        tallies.oversize_segments.change(2);
        tallies.num_ooms = 4;
        tallies.reset_accumulated();
        tallies.reset_peak();
        let stats = tallies.stats();
        let rest = |n| Stat { current: n, peak: n, allocated: 0, freed: 0 };
        assert_eq!(stats.active, PoolStat { all: rest(7), small_pool: rest(2), large_pool: rest(5) });
        assert_eq!(stats.oversize_segments, rest(2));
        assert_eq!((stats.num_ooms, stats.max_split_size), (0, 7));
        // Blocks from before the reset are freed after it, so `freed` exceeds `allocated`.
        tallies.active.subtract(PoolKind::Large, 4);
        assert_eq!(tallies.stats().active.all, Stat { current: 3, peak: 7, allocated: 0, freed: 4 });
    }
}
