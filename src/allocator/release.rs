//! How cached segments go back to the device (caching-allocator.md 5).

use super::{block::BlockId, heap::Heap, pool::PoolIndex, stats::signed};
use crate::{
    error::Result,
    event::{Action, StackId},
};

impl Heap {
    /// Waits for all streams, then gives back every segment without a block in
    /// use: the large pool first, each in the order of its free blocks.
    pub(super) fn release_cached(&mut self, stack: StackId) -> Result<()> {
        self.stats.num_sync_all_streams += 1;
        self.complete_all(stack)?;
        for pool in (0..self.pools.len()).rev() {
            self.release_pool(PoolIndex(pool), stack);
        }
        Ok(())
    }

    fn release_pool(&mut self, pool: PoolIndex, stack: StackId) {
        let whole: Vec<BlockId> =
            self.pools[pool.0].iter().filter(|id| !self.blocks[*id].is_split()).collect();
        for id in whole {
            self.release_segment(id, stack);
        }
    }

    /// Gives back the segment of a free block that is all of it. The event
    /// comes first: once the device has the memory, another thread's segment
    /// may stand at its address.
    fn release_segment(&mut self, id: BlockId, stack: StackId) {
        let block = &self.blocks[id];
        let bytes = block.bytes;
        let pool = &mut self.pools[block.pool.0];
        let kind = pool.kind;
        pool.remove(id, block);
        self.record(Action::SegmentFree, id, bytes, stack.or(self.blocks[id].segment_stack));
        self.stats.num_device_free += 1;
        self.stats.segment.change(kind, -1);
        self.stats.reserved_bytes.change(kind, -signed(bytes));
        let block = self.blocks.remove(id);
        // SAFETY: a block without neighbours is a whole segment, with the
        // address and bytes it came with; it was in its pool's free set, so
        // nobody holds it; and it has just left the arena, so this is the
        // only time.
        unsafe { self.segments.give_back(block.address, block.bytes) }
    }
}
