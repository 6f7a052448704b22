//! The memory in use at the end, by stack.

use crate::{
    history::active_blocks,
    model::{Snapshot, StackIndex},
};

/// Returns the stack and the requested bytes of every block in use at the end.
pub(super) fn in_use(snapshot: &Snapshot) -> impl Iterator<Item = (Option<StackIndex>, u64)> {
    let blocks = snapshot.segments.iter().flat_map(active_blocks);
    blocks.map(|block| (block.block.stack, block.block.requested_size))
}
