//! The live blocks of one shard, now and at an earlier marked moment.
//!
//! A dump marks all shards at one moment and copies them one after the other. Meanwhile a marked shard saves what was
//! at each address that changes, so that the copy can be restored to that moment.
#![forbid(unsafe_code)]

use std::ops::Range;

use rustc_hash::FxHashMap;

use super::blocks::{Blocks, Inserted, LargeSizes, LiveBlock, Slot};
use crate::recorder::Ticks;

/// The blocks of a shard.
#[derive(Debug, Default)]
pub(super) struct ShardBlocks {
    blocks: Blocks,
    /// The time of the newest event. It keeps the events of an address in order, although the counter that gives the
    /// times may be read before the lock is taken.
    newest: Ticks,
    /// What changed since the mark; `None` without a mark.
    since: Option<Changes>,
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
#[derive(Debug, Default)]
struct Changes {
    before: FxHashMap<u64, Option<LiveBlock>>,
    /// Whether there was no memory for an entry.
    lacks_one: bool,
}

impl ShardBlocks {
    pub(super) fn blocks(&self) -> &Blocks {
        &self.blocks
    }

    #[inline(always)]
    pub(super) fn newest(&mut self) -> &mut Ticks {
        &mut self.newest
    }

    /// Adds a block.
    #[inline]
    pub(super) fn insert(&mut self, block: LiveBlock) -> Inserted {
        let inserted = self.blocks.insert(block);
        if let Inserted::Replaced(_) = inserted {
            self.forget_move(block.address);
        }
        if let Some(changes) = &mut self.since {
            match inserted {
                Inserted::New => changes.note(block.address, None),
                Inserted::Replaced(before) => changes.note(block.address, Some(before)),
                Inserted::NoRoom => {}
            }
        }
        inserted
    }

    /// Removes the block at an address and returns it.
    #[inline]
    pub(super) fn remove(&mut self, address: u64) -> Option<LiveBlock> {
        let removed = self.blocks.remove(address)?;
        self.forget_move(address);
        if let Some(changes) = &mut self.since {
            changes.note(address, Some(removed));
        }
        Some(removed)
    }

    /// Records that a request may move the block at an address. Returns the request's number; `None` if there is no block.
    #[inline]
    pub(super) fn begin_move(&mut self, address: u64) -> Option<u32> {
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
    pub(super) fn is_moving(&self, address: u64, number: u32) -> bool {
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
    pub(super) fn has_moving(&self) -> bool {
        !self.moving.is_empty()
    }

    /// Returns the address of a block that a request has moved away, because another one is in its place.
    pub(super) fn moved_from(&self, place: &Range<u64>) -> Option<u64> {
        let is_there = |moving: &&MovingBlock| {
            let block = self.blocks.get(moving.address);
            block.is_some_and(|block| block.address < place.end && place.start < block.end())
        };
        self.moving.iter().find(is_there).map(|moving| moving.address)
    }

    /// Marks the current moment.
    pub(super) fn mark(&mut self) {
        self.since = Some(Changes::default());
    }

    /// Ends the mark of a dump that no longer exists.
    pub(super) fn forget_mark(&mut self) {
        // Not freed: a child of a fork does as little as it can.
        std::mem::forget(self.since.take());
    }

    /// Ends the mark and copies the shard, if `copy` has room for it; else returns the number of slots.
    pub(super) fn copy_to(&mut self, copy: &mut ShardCopy) -> Result<(), usize> {
        let slots = self.blocks.slots();
        let Some(room) = copy.room.get_mut(..slots.len()) else { return Err(slots.len()) };
        room.copy_from_slice(slots);
        copy.large.clone_from(self.blocks.large());
        copy.n_slots = slots.len();
        copy.changes = self.since.take();
        Ok(())
    }
}

impl Changes {
    #[cold]
    fn note(&mut self, address: u64, before: Option<LiveBlock>) {
        if self.before.try_reserve(1).is_ok() {
            // The first change counts.
            self.before.entry(address).or_insert(before);
        } else {
            self.lacks_one |= !self.before.contains_key(&address);
        }
    }
}

/// The slots of a shard at the time of the copy, and what had changed since its mark.
#[derive(Debug, Default)]
pub(super) struct ShardCopy {
    /// Memory for slots that was written before: a copy into new memory would wait for the kernel.
    room: Vec<Slot>,
    n_slots: usize,
    large: LargeSizes,
    changes: Option<Changes>,
}

impl ShardCopy {
    /// Makes room for a number of slots.
    pub(super) fn make_room(&mut self, n_slots: usize) {
        self.room.clear();
        self.room.resize(n_slots, Slot::EMPTY);
    }

    /// Calls `look` with each block at the moment of the mark, in no order. Returns whether the blocks are complete.
    pub(super) fn each(&mut self, mut look: impl FnMut(LiveBlock)) -> bool {
        let Changes { before, lacks_one } = self.changes.take().unwrap_or_default();
        let blocks = self.room[..self.n_slots].iter().filter_map(|slot| slot.block(&self.large));
        let is_as_then = |block: &LiveBlock| before.is_empty() || !before.contains_key(&block.address);
        blocks.filter(is_as_then).for_each(&mut look);
        before.values().flatten().for_each(|block| look(*block));
        !lacks_one
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::process::testing::random::Random;
    use memreel_snapshot::words::StackId;

    fn copied(shard: &mut ShardBlocks) -> BTreeMap<u64, u64> {
        let mut copy = ShardCopy::default();
        let Err(n_slots) = shard.copy_to(&mut copy) else { return BTreeMap::new() };
        copy.make_room(n_slots);
        shard.copy_to(&mut copy).unwrap();
        let mut blocks = BTreeMap::new();
        assert!(copy.each(|block| assert_eq!(blocks.insert(block.address, block.bytes), None)));
        blocks
    }

    /// Covers everything that happens between mark and copy: the table grows, addresses are reused, blocks move up.
    #[test]
    fn a_copy_is_of_the_moment_of_the_mark() {
        let mut random = Random::new(7);
        let mut shard = ShardBlocks::default();
        let mut oracle = BTreeMap::new();
        for n_changes in [0, 1, 10, 300, 3000, 20_000] {
            shard.mark();
            let at_mark = oracle.clone();
            for step in 0..n_changes {
                let address = 16 * (1 + random.below(2000));
                if random.below(3) > 0 {
                    // Some have no room in a slot.
                    let bytes = step << (random.below(2) * 30);
                    shard.insert(LiveBlock { address, bytes, stack: StackId::NONE });
                    oracle.insert(address, bytes);
                } else {
                    assert_eq!(shard.remove(address).map(|block| block.bytes), oracle.remove(&address));
                }
            }
            assert_eq!(copied(&mut shard), at_mark);
            assert_eq!(shard.blocks().n_bytes(), oracle.values().sum::<u64>());
        }
        shard.mark();
        shard.forget_mark();
        shard.remove(*oracle.keys().next().unwrap());
        oracle.pop_first();
        assert_eq!(copied(&mut shard), oracle);
    }
}
