//! The table of the heap's live blocks: shards with a lock each, which are marked at one moment and copied one by one.

mod blocks;
mod mixed;
mod shard;
mod spin;
mod table;

pub use blocks::{Block, Blocks, Inserted};
pub use mixed::mixed;
pub use shard::{ShardBlocks, ShardCopy};
pub use spin::{SpinGuard, SpinLock};
pub use table::{Dump, LockedShard, LockedTable, Table};
