//! The allocator as an inventory: its segments and blocks at one instant (caching-allocator.md 5.3).
#![forbid(unsafe_code)]

use super::{
    CachingAllocator,
    block::{BlockId, Blocks},
    heap::Heap,
};
use crate::{
    event::DeviceId,
    inventory::{self, Inventory, SettingsReport},
};

impl Inventory for CachingAllocator {
    fn device(&self) -> DeviceId {
        self.device_id()
    }

    fn inspect(&self, look: &mut dyn FnMut(&[inventory::Segment])) {
        let heap = self.shared.heap();
        look(&heap.inventory());
    }

    fn settings(&self) -> SettingsReport {
        self.shared.heap().settings.report()
    }
}

impl Heap {
    /// Every segment with its blocks, by address (caching-allocator.md 5.3).
    /// Of an expandable segment, each stretch that has memory is one.
    fn inventory(&self) -> Vec<inventory::Segment> {
        let begins = |prev: BlockId| !self.blocks[prev].is_mapped;
        let heads = self.blocks.iter().filter(|(_, block)| block.is_mapped && block.prev.is_none_or(begins));
        let mut segments: Vec<_> = heads.map(|(head, _)| self.segment(head)).collect();
        segments.sort_unstable_by_key(|segment| segment.address);
        segments
    }

    fn segment(&self, head: BlockId) -> inventory::Segment {
        let blocks = chain(&self.blocks, head);
        let first = &self.blocks[head];
        let pool = &self.pools[first.pool];
        inventory::Segment {
            address: first.address,
            bytes: blocks.iter().map(|block| block.bytes).sum(),
            stream: first.stream,
            kind: first.pool.kind(),
            pool: pool.id,
            is_expandable: first.range.is_some(),
            stack: first.segment_stack,
            blocks,
        }
    }
}

/// A segment's blocks, from its first on.
fn chain(blocks: &Blocks, head: BlockId) -> Vec<inventory::Block> {
    let ids = std::iter::successors(Some(head), |id| blocks[*id].next.filter(|next| blocks[*next].is_mapped));
    ids.map(|id| {
        let block = &blocks[id];
        inventory::Block {
            address: block.address,
            bytes: block.bytes,
            requested_bytes: block.requested_bytes,
            state: block.state(),
            stack: block.stack,
        }
    })
    .collect()
}
