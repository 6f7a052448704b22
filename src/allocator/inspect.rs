//! The allocator as an [`Inventory`]: its segments and blocks at one instant (`docs/caching-allocator.md` 5.3).
#![forbid(unsafe_code)]

use super::{block::Blocks, caching_allocator::CachingAllocator, core::Core, ids::BlockId};
use memreel_snapshot::words::{
    Action, DeviceId, Inventory, InventoryBlock, InventorySegment, SettingsReport, StackId,
};

impl Inventory for CachingAllocator {
    fn device(&self) -> DeviceId {
        self.device_id()
    }

    fn inspect(&self, look: &mut dyn FnMut(&[InventorySegment])) {
        let core = self.shared.core();
        look(&core.inventory());
    }

    fn settings(&self) -> SettingsReport {
        self.shared.core().settings.report()
    }
}

impl Core {
    /// Records the name of a block in use.
    pub(super) fn annotate(&self, id: BlockId, stack: StackId, name: &str) {
        let block = &self.blocks[id];
        let stack = stack.of_free(block.stack);
        self.track.annotate(block.event(Action::Annotate, self.pools[block.pool].id, stack), name);
    }

    /// Returns all segments with their blocks, by address (`docs/caching-allocator.md` 5.3). Each mapped stretch of an
    /// expandable segment is its own segment.
    fn inventory(&self) -> Vec<InventorySegment> {
        let begins = |prev: BlockId| !self.blocks[prev].is_mapped;
        let heads = self.blocks.iter().filter(|(_, block)| block.is_mapped && block.prev.is_none_or(begins));
        let mut segments: Vec<_> = heads.map(|(head, _)| self.segment(head)).collect();
        segments.sort_unstable_by_key(|segment| segment.address);
        segments
    }

    fn segment(&self, head: BlockId) -> InventorySegment {
        let blocks = chain(&self.blocks, head);
        let first = &self.blocks[head];
        let pool = &self.pools[first.pool];
        InventorySegment {
            address: first.address,
            size_bytes: blocks.iter().map(|block| block.size_bytes).sum(),
            stream: first.stream,
            kind: first.pool.kind(),
            pool: pool.id,
            is_expandable: first.range.is_some(),
            stack: first.segment_stack,
            blocks,
        }
    }
}

/// Returns a segment's blocks, starting with its first.
fn chain(blocks: &Blocks, head: BlockId) -> Vec<InventoryBlock> {
    let ids = std::iter::successors(Some(head), |id| blocks[*id].next.filter(|next| blocks[*next].is_mapped));
    ids.map(|id| {
        let block = &blocks[id];
        InventoryBlock {
            address: block.address,
            size_bytes: block.bytes,
            requested_bytes: block.requested_bytes,
            state: block.state(),
            stack: block.stack,
        }
    })
    .collect()
}
