//! Blocks that fill a segment without gaps.
#![forbid(unsafe_code)]

use memreel_snapshot::words::{Address, BlockState, InventoryBlock, StackId};

/// Returns the blocks of a segment from `start` to `end`: these, by rising address, and inactive ones between them.
pub(crate) fn tiled(
    start: u64,
    end: u64,
    active: impl Iterator<Item = InventoryBlock>,
) -> Vec<InventoryBlock> {
    let (mut blocks, mut at) = (Vec::new(), start);
    for block in active {
        push_gap(&mut blocks, at, block.address.0);
        at = block.address.0 + block.size_bytes;
        blocks.push(block);
    }
    push_gap(&mut blocks, at, end);
    blocks
}

fn push_gap(blocks: &mut Vec<InventoryBlock>, start: u64, end: u64) {
    if start < end {
        blocks.push(InventoryBlock {
            address: Address(start),
            size_bytes: end - start,
            requested_bytes: 0,
            state: BlockState::Inactive,
            stack: StackId::NONE,
        });
    }
}
