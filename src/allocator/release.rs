//! Releases cached segments to the device (`docs/caching-allocator.md` 3.3, 5).

use super::{
    block::Block,
    core::{Core, LARGE, Request, SMALL},
    growth::Growth,
    ids::{BlockId, PoolIndex},
};
use memreel_snapshot::words::{Action, PoolId, Result, StackId};

impl Growth<'_> {
    /// Releases unused memory: of the default pools, after waiting for all streams, and of the private pools without
    /// references. If `only` is a private pool, releases only that one. While requests are routed to a private pool,
    /// the default pools are not released.
    pub(super) fn release_cached(&mut self, only: PoolId, stack: StackId) -> Result<()> {
        let released = self.release_unused(only, stack);
        self.give_back();
        released
    }

    fn release_unused(&mut self, only: PoolId, stack: StackId) -> Result<()> {
        let is_default = only == PoolId::DEFAULT;
        if is_default && !self.private.is_routing() {
            self.complete_all(stack)?;
            // Another thread may have begun a pool during the wait.
            if !self.private.is_routing() {
                self.release_default_pools(stack);
            }
        }
        for id in self.private.freeable() {
            if is_default || id == only {
                self.release_private(id, !is_default, stack)?;
            }
        }
        Ok(())
    }

    fn release_private(&mut self, id: PoolId, waits: bool, stack: StackId) -> Result<()> {
        let Some(pools) = self.private.get(id).map(|pool| pool.pools) else { return Ok(()) };
        if waits {
            self.complete_pools(pools, stack)?;
        }
        pools.into_iter().for_each(|pool| self.release_pool(pool, stack));
        self.erase_spent(id, pools);
        Ok(())
    }
}

impl Core {
    /// Erases a private pool that has no references and no memory.
    fn erase_spent(&mut self, id: PoolId, pools: [PoolIndex; 2]) {
        // PyTorch checks only its count of device allocations. One growth can
        // be given back in two parts, so the count can be zero while blocks
        // live; if the pool were erased then, they could not be given back.
        let has_memory = |block: &Block| block.is_mapped && pools.contains(&block.pool);
        if self.private.is_spent(id) && !self.blocks.iter().any(|(_, block)| has_memory(block)) {
            pools.into_iter().for_each(|pool| self.unreserve_bare(pool));
            self.private.erase(id);
            self.pools.remove(pools);
        }
    }

    pub(super) fn release_default_pools(&mut self, stack: StackId) {
        self.release_pool(LARGE, stack);
        self.release_pool(SMALL, stack);
    }

    /// Releases the free segments of a pool in order, then the whole free pages of its expandable segments.
    fn release_pool(&mut self, pool: PoolIndex, stack: StackId) {
        let (pages, segments): (Vec<BlockId>, Vec<BlockId>) =
            self.pools[pool].iter().partition(|id| self.blocks[*id].range.is_some());
        for id in segments {
            if !self.blocks[id].is_split() {
                self.release_segment(id, stack);
            }
        }
        pages.into_iter().for_each(|id| self.unmap(id, stack));
    }

    /// If `max_split_bytes` is set, releases enough oversize blocks for a
    /// request: one that is large enough, or several from the largest down.
    /// Returns true if enough was released.
    pub(super) fn release_available(&mut self, request: &Request) -> bool {
        let Some(max_split_bytes) = self.settings.max_split_bytes else { return false };
        let key_bytes = request.rounded_bytes.max(max_split_bytes);
        let pool = &self.pools[request.pool];
        let fits = pool.fitting(request.stream, key_bytes).next();
        if let Some(id) = fits.filter(|id| self.is_whole_segment(*id)) {
            self.release_segment(id, request.growth_stack);
            return true;
        }
        let smaller: Vec<BlockId> = self.pools[request.pool]
            .below(request.stream, key_bytes)
            .take_while(|id| self.blocks[*id].bytes >= max_split_bytes)
            .collect();
        let mut released_bytes = 0;
        for id in smaller {
            if released_bytes >= key_bytes {
                break;
            }
            if self.is_whole_segment(id) {
                released_bytes += self.blocks[id].bytes;
                self.release_segment(id, request.growth_stack);
            }
        }
        released_bytes >= key_bytes
    }

    /// Returns true if the block fills a segment that is not expandable.
    ///
    /// PyTorch checks only whether the block is expandable, so after a change of
    /// settings at run time it can release the head of a split segment, and with
    /// it the memory of the tail (`docs/caching-allocator.md` 6.6).
    fn is_whole_segment(&self, id: BlockId) -> bool {
        self.blocks[id].range.is_none() && !self.blocks[id].is_split()
    }

    /// Releases the segment that a free block fills. The event is recorded first: as soon as the device has the memory,
    /// another thread can get a segment at the same address. [`Growth::give_back`] returns it to the device.
    pub(super) fn release_segment(&mut self, id: BlockId, stack: StackId) {
        assert!(self.is_whole_segment(id), "only a whole segment goes back");
        let block = &self.blocks[id];
        let (bytes, pool) = (block.bytes, block.pool);
        let kind = pool.kind();
        self.pools[pool].remove(id, block);
        self.record(Action::SegmentFree, id, bytes, stack.or(self.blocks[id].segment_stack));
        self.stats.num_device_free += 1;
        self.stats.segment.subtract(kind, 1);
        self.stats.reserved_bytes.subtract(kind, bytes);
        if self.settings.is_oversize(bytes) {
            self.stats.oversize_segments.change(-1);
        }
        self.count_device_alloc(pool, -1);
        let block = self.blocks.remove(id);
        // SAFETY: a block without neighbours is a whole segment with its
        // original address and bytes (asserted above); it was in its pool's free
        // set, so it is not allocated; and it was just removed from the arena, so
        // it is released only once.
        unsafe { self.supply.release(block.address, block.bytes) }
    }
}

#[cfg(test)]
mod tests {
    use crate::{
        allocator::{CachingAllocator, PoolOptions, Route},
        device::Simulated,
        recorder::Recorder,
    };
    use memreel_snapshot::words::{DeviceId, StreamId};

    #[test]
    fn private_pools_that_come_and_go_leave_nothing() {
        for conf in ["expandable_segments:False", "expandable_segments:True"] {
            let track = Recorder::new().track(DeviceId(0));
            let settings = conf.parse().unwrap();
            let allocator = CachingAllocator::with_settings(Simulated::new(1 << 30), &track, settings);
            for _ in 0..1000 {
                let pool = allocator.create_pool(PoolOptions::default());
                allocator.begin_pool(pool, Route::Thread).unwrap();
                drop([1000, 3 << 20].map(|bytes| allocator.alloc(bytes, StreamId(1)).unwrap()));
                allocator.end_pool(pool).unwrap();
                (0..2).for_each(|_| allocator.release_pool(pool).unwrap());
                allocator.empty_cache().unwrap();
            }
            let core = allocator.shared.core();
            assert_eq!(
                core.pools.indices().count(),
                4,
                "{conf}: the default pair and one that is used again"
            );
            assert_eq!(core.blocks.iter().count(), 0, "{conf}");
        }
    }
}
