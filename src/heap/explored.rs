//! The table of blocks alone, for the models of `dev/loom`, because the heap itself exists once per process.
#![forbid(unsafe_code)]

use super::{
    blocks::{Inserted, LiveBlock},
    table::Table,
};
use memreel_snapshot::words::StackId;

/// A table of blocks. Under loom it has two shards, and all blocks of a shard have the same hash.
#[derive(Debug, Default)]
pub struct LiveBlocks(Table);

impl LiveBlocks {
    /// Adds a block; returns whether none was at its address.
    #[must_use]
    pub fn insert(&self, address: u64, bytes: u64) -> bool {
        let shard = self.0.lock(address);
        let block = LiveBlock { address, bytes, stack: StackId::NONE };
        shard.is_some_and(|mut shard| shard.insert(block) == Inserted::New)
    }

    /// Removes the block at an address; returns its bytes.
    #[must_use]
    pub fn remove(&self, address: u64) -> Option<u64> {
        Some(self.0.lock(address)?.remove(address)?.bytes)
    }

    /// Returns whether the block at an address may be here.
    #[must_use]
    pub fn may_have(&self, address: u64) -> bool {
        self.0.may_have(address)
    }

    /// Dumps the table. Returns addresses and sizes twice: of the blocks at the mark, read while all shards were
    /// locked, and of those in the copy.
    #[must_use]
    pub fn dump(&self) -> [Vec<(u64, u64)>; 2] {
        let Some((dump, mut all)) = self.0.begin_dump().zip(self.0.lock_all()) else {
            return [vec![], vec![]];
        };
        all.mark(&dump);
        let mut at_mark: Vec<_> = all.blocks().map(in_two).collect();
        drop(all);
        let mut copied = Vec::new();
        dump.each_block(|block| copied.push(in_two(block)));
        at_mark.sort_unstable();
        copied.sort_unstable();
        [at_mark, copied]
    }
}

fn in_two(block: LiveBlock) -> (u64, u64) {
    (block.address, block.bytes)
}
