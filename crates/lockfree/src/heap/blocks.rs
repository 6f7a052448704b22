//! What a shard of the table stores: blocks by address.
#![forbid(unsafe_code)]

use std::fmt::Debug;

/// A block of memory.
pub trait Block: Copy + Debug {
    /// Returns the address, which is not 0.
    fn address(self) -> u64;

    /// Returns the end address. A block of 0 bytes still occupies its address.
    fn end(self) -> u64;
}

/// The blocks of one shard by address, for the thread that has the shard's lock.
pub trait Blocks: Default + Debug {
    /// What is stored.
    type Block: Block;
    /// A copy of all blocks, in memory that was written before: a copy into new memory would wait for the kernel.
    type Copied: Default + Debug;

    /// Adds a block.
    fn insert(&mut self, block: Self::Block) -> Inserted<Self::Block>;

    /// Removes the block at an address and returns it.
    fn remove(&mut self, address: u64) -> Option<Self::Block>;

    /// Returns the block at an address.
    fn get(&self, address: u64) -> Option<Self::Block>;

    /// Copies all blocks if there is room.
    ///
    /// # Errors
    /// The number for [`Blocks::make_room`] if there is not.
    fn copy_to(&self, copied: &mut Self::Copied) -> Result<(), usize>;

    /// Makes room for a copy.
    fn make_room(copied: &mut Self::Copied, n: usize);

    /// Iterates over the blocks of a copy, in no order.
    fn copied(copied: &Self::Copied) -> impl Iterator<Item = Self::Block>;
}

/// The outcome of an insertion.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Inserted<T> {
    /// No block was at the address.
    New,
    /// A block was at this address; its free was not reported.
    Replaced(T),
    /// The table could not grow, for want of memory.
    NoRoom,
}
