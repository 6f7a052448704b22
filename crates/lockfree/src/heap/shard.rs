//! The live blocks of one shard, now and at an earlier marked moment.
//!
//! A dump marks all shards at one moment and copies them one after the other. Meanwhile a marked shard saves what was
//! at each address that changes, so that the copy can be restored to that moment.
#![forbid(unsafe_code)]

use std::{collections::HashMap, hash::BuildHasherDefault, ops::Range};

use super::{
    blocks::{Block, Blocks, Inserted},
    mixed::Mixed,
};
use crate::ticks::Ticks;

/// The blocks of a shard.
#[derive(Debug)]
pub struct ShardBlocks<B: Blocks> {
    blocks: B,
    /// The time of the newest event. It keeps the events of an address in order, although the counter that gives the
    /// times may be read before the lock is taken.
    newest: Ticks,
    /// What changed since the mark; `None` without a mark.
    since: Option<Changes<B::Block>>,
    /// The blocks that requests may have moved away. If the request failed, the block is here until it is gone.
    moving: Vec<MovingBlock>,
    n_moves: u32,
}

/// A block that a request may have moved away.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct MovingBlock {
    address: u64,
    /// The number of the last such request.
    number: u32,
}

/// The earlier contents of changed addresses; a thread may change one again and again.
#[derive(Debug)]
struct Changes<T> {
    before: HashMap<u64, Option<T>, BuildHasherDefault<Mixed>>,
    /// Whether there was no memory for an entry.
    lacks_one: bool,
}

impl<T> Default for Changes<T> {
    fn default() -> Changes<T> {
        Changes { before: HashMap::default(), lacks_one: false }
    }
}

impl<B: Blocks> Default for ShardBlocks<B> {
    fn default() -> ShardBlocks<B> {
        let (blocks, newest) = (B::default(), Ticks::default());
        ShardBlocks { blocks, newest, since: None, moving: Vec::new(), n_moves: 0 }
    }
}

impl<B: Blocks> ShardBlocks<B> {
    /// Returns the blocks.
    #[inline]
    pub fn blocks(&self) -> &B {
        &self.blocks
    }

    /// Returns the time of the newest event, for the next one.
    #[inline(always)]
    pub fn newest(&mut self) -> &mut Ticks {
        &mut self.newest
    }

    /// Adds a block.
    #[inline]
    pub fn insert(&mut self, block: B::Block) -> Inserted<B::Block> {
        let inserted = self.blocks.insert(block);
        if let Inserted::Replaced(_) = inserted {
            self.forget_move(block.address());
        }
        if let Some(changes) = &mut self.since {
            match inserted {
                Inserted::New => changes.note(block.address(), None),
                Inserted::Replaced(before) => changes.note(block.address(), Some(before)),
                Inserted::NoRoom => {}
            }
        }
        inserted
    }

    /// Removes the block at an address and returns it.
    #[inline]
    pub fn remove(&mut self, address: u64) -> Option<B::Block> {
        let removed = self.blocks.remove(address)?;
        self.forget_move(address);
        if let Some(changes) = &mut self.since {
            changes.note(address, Some(removed));
        }
        Some(removed)
    }

    /// Records that a request may move the block at an address. Returns the request's number, or `None` if no block is at that address.
    #[inline]
    pub fn begin_move(&mut self, address: u64) -> Option<u32> {
        self.blocks.get(address)?;
        let number = self.n_moves.checked_add(1).unwrap_or(1);
        match self.moving.iter_mut().find(|moving| moving.address == address) {
            Some(moving) => moving.number = number,
            None => {
                self.moving.try_reserve(1).ok()?;
                self.moving.push(MovingBlock { address, number });
            }
        }
        self.n_moves = number;
        Some(number)
    }

    /// Returns whether the block at an address is the one that a request was to move, rather than a later one.
    #[inline]
    pub fn is_moving(&self, address: u64, number: u32) -> bool {
        self.moving.contains(&MovingBlock { address, number })
    }

    #[inline]
    fn forget_move(&mut self, address: u64) {
        if !self.moving.is_empty() {
            self.moving.retain(|moving| moving.address != address);
        }
    }

    /// Returns whether a request may have moved a block of this shard.
    #[inline]
    pub fn has_moving(&self) -> bool {
        !self.moving.is_empty()
    }

    /// Returns the address of a block that a request has moved away, because another one is in its place.
    pub fn moved_from(&self, place: &Range<u64>) -> Option<u64> {
        let is_there = |moving: &&MovingBlock| {
            let block = self.blocks.get(moving.address);
            block.is_some_and(|block| block.address() < place.end && place.start < block.end())
        };
        self.moving.iter().find(is_there).map(|moving| moving.address)
    }

    /// Marks the current moment.
    pub fn mark(&mut self) {
        self.since = Some(Changes::default());
    }

    /// Ends the mark of a dump that no longer exists.
    pub fn forget_mark(&mut self) {
        // Not freed: a child of a fork does as little as it can.
        std::mem::forget(self.since.take());
    }

    /// Ends the mark and copies the shard, if `copy` has room for it; else returns the room that it needs.
    ///
    /// # Errors
    /// The number for [`ShardCopy::make_room`].
    pub fn copy_to(&mut self, copy: &mut ShardCopy<B>) -> Result<(), usize> {
        self.blocks.copy_to(&mut copy.blocks)?;
        copy.changes = self.since.take();
        Ok(())
    }
}

impl<T> Changes<T> {
    #[cold]
    fn note(&mut self, address: u64, before: Option<T>) {
        if self.before.try_reserve(1).is_ok() {
            // The first change counts.
            self.before.entry(address).or_insert(before);
        } else {
            self.lacks_one |= !self.before.contains_key(&address);
        }
    }
}

/// The blocks of a shard at the time of the copy, and what had changed since its mark.
#[derive(Debug)]
pub struct ShardCopy<B: Blocks> {
    blocks: B::Copied,
    changes: Option<Changes<B::Block>>,
}

impl<B: Blocks> Default for ShardCopy<B> {
    fn default() -> ShardCopy<B> {
        ShardCopy { blocks: B::Copied::default(), changes: None }
    }
}

impl<B: Blocks> ShardCopy<B> {
    /// Makes room for a shard.
    pub fn make_room(&mut self, n: usize) {
        B::make_room(&mut self.blocks, n);
    }

    /// Calls `look` with each block at the moment of the mark, in no order. Returns whether the blocks are complete.
    pub fn each(&mut self, mut look: impl FnMut(B::Block)) -> bool {
        let Changes { before, lacks_one } = self.changes.take().unwrap_or_default();
        let is_as_then = |block: &B::Block| before.is_empty() || !before.contains_key(&block.address());
        B::copied(&self.blocks).filter(is_as_then).for_each(&mut look);
        before.values().flatten().for_each(|block| look(*block));
        !lacks_one
    }
}
