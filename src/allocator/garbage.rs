//! Garbage collection: releases old free segments before more memory is taken (`docs/caching-allocator.md` 2.6).
#![forbid(unsafe_code)]

use super::{
    core::{Core, LARGE},
    ids::BlockId,
};
use memreel_snapshot::words::StackId;

impl Core {
    /// Releases the free segments of the default large pool that are at least of average age, in passes, while more
    /// than the threshold is reserved.
    pub(super) fn collect_garbage(&mut self, stack: StackId) {
        let Some(allowed_bytes) = self.supply.allowed_bytes() else { return };
        #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let limit_bytes = (self.settings.garbage_collection_threshold * allowed_bytes as f64) as u64;
        let reserved_bytes = self.supply.reserved_bytes();
        if !self.ages_count() || reserved_bytes <= limit_bytes {
            return;
        }
        let target_bytes = reserved_bytes - limit_bytes;
        let mut reclaimed_bytes = 0;
        let mut old = self.ages();
        while reclaimed_bytes < target_bytes && !old.is_empty() {
            let (released, kept) = self.release_older_than_average(&old, stack);
            if released == 0 {
                return;
            }
            reclaimed_bytes += released;
            old = kept;
        }
    }

    /// Returns the free segments in the pool's order, each with its age in searches.
    fn ages(&self) -> Vec<(BlockId, u64)> {
        let pool = &self.pools[LARGE];
        let whole = pool.iter().filter(|id| !self.blocks[*id].is_split());
        whole.map(|id| (id, pool.n_searches - self.blocks[id].freed_at)).collect()
    }

    /// Runs one pass with the average age at its start. Returns the released bytes and the remaining segments.
    fn release_older_than_average(
        &mut self,
        old: &[(BlockId, u64)],
        stack: StackId,
    ) -> (u64, Vec<(BlockId, u64)>) {
        #[allow(clippy::cast_precision_loss)]
        let average = old.iter().map(|(_, age)| *age).sum::<u64>() as f64 / old.len() as f64;
        #[allow(clippy::cast_precision_loss)]
        let is_old = |(id, age): &(BlockId, u64)| *age as f64 >= average && self.blocks[*id].range.is_none();
        let (released, kept): (Vec<_>, Vec<_>) = old.iter().copied().partition(is_old);
        let mut released_bytes = 0;
        for (id, _) in released {
            released_bytes += self.blocks[id].bytes;
            self.release_segment(id, stack);
        }
        (released_bytes, kept)
    }
}
