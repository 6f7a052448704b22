//! The live blocks of one shard, by address.
#![forbid(unsafe_code)]

use crate::process::ahead;
use memreel_lockfree::heap::{self, Block, Inserted};
use memreel_snapshot::words::StackId;

/// A recorded block that is live.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct LiveBlock {
    /// Never 0.
    pub(super) address: u64,
    pub(super) bytes: u64,
    pub(super) stack: StackId,
}

impl Block for LiveBlock {
    #[inline]
    fn address(self) -> u64 {
        self.address
    }

    #[inline]
    fn end(self) -> u64 {
        self.address.saturating_add(self.bytes.max(1))
    }
}

/// A slot of the table: a block or nothing. The address is negated, because leak checkers (LeakSanitizer) take anything
/// that looks like a pointer for one, and would then find no leaked block in the program.
#[derive(Clone, Copy, Debug)]
struct Slot {
    /// 0 if there is no block.
    negated: u64,
    /// [`Slot::LARGE`] if the size is among the [`LargeSizes`].
    bytes: u32,
    stack: StackId,
}

impl Slot {
    const EMPTY: Slot = Slot { negated: 0, bytes: 0, stack: StackId::NONE };
    /// Stands for this size and all larger ones.
    const LARGE: u32 = u32::MAX;

    fn of(LiveBlock { address, bytes, stack }: LiveBlock) -> Slot {
        Slot { negated: address.wrapping_neg(), bytes: u32::try_from(bytes).unwrap_or(Slot::LARGE), stack }
    }

    /// Returns the address of the block; 0 if there is none.
    #[inline]
    fn address(self) -> u64 {
        self.negated.wrapping_neg()
    }

    fn is_large(self) -> bool {
        self.bytes == Slot::LARGE
    }

    #[inline]
    fn block(self, large: &LargeSizes) -> Option<LiveBlock> {
        let bytes = if self.is_large() { large.of(self) } else { u64::from(self.bytes) };
        (self.negated != 0).then(|| LiveBlock { address: self.address(), bytes, stack: self.stack })
    }
}

/// The sizes that slots have no room for, with the negated addresses of their blocks. Few blocks are so large.
#[derive(Clone, Debug, Default)]
struct LargeSizes(Vec<(u64, u64)>);

impl LargeSizes {
    #[cold]
    fn of(&self, slot: Slot) -> u64 {
        self.0.iter().find(|(negated, _)| *negated == slot.negated).map_or(0, |(_, bytes)| *bytes)
    }

    #[cold]
    fn remove(&mut self, slot: Slot) {
        self.0.retain(|(negated, _)| *negated != slot.negated);
    }
}

/// The addresses that have neighbouring slots.
const GROUP_BYTES: u64 = 256;

/// A hash table with open addressing. It grows within the recorder's own work, so its memory comes from the allocator
/// that the heap wraps, and is not recorded.
///
/// Blocks that are near each other have slots near each other: memory is waited for once, and not for each block of a list
/// that is freed. A block costs 24 to 48 bytes.
#[derive(Debug, Default)]
pub(super) struct Blocks {
    /// A power of two, or empty. At least a third of the slots are empty.
    slots: Vec<Slot>,
    large: LargeSizes,
    n_live: usize,
    n_bytes: u64,
}

/// A copy of a shard's blocks.
#[derive(Debug, Default)]
pub(super) struct Copied {
    /// Memory for slots that was written before.
    room: Vec<Slot>,
    n_slots: usize,
    large: LargeSizes,
}

impl Blocks {
    const FIRST_SLOTS: usize = 64;

    /// Returns the block of a slot, which will have another one, or none.
    #[inline]
    fn take(&mut self, slot: usize) -> Option<LiveBlock> {
        let old = self.slots[slot];
        let block = old.block(&self.large)?;
        if old.is_large() {
            self.large.remove(old);
        }
        self.n_bytes = self.n_bytes.wrapping_sub(block.bytes);
        Some(block)
    }

    pub(super) fn len(&self) -> usize {
        self.n_live
    }

    /// Returns the bytes of all blocks.
    pub(super) fn n_bytes(&self) -> u64 {
        self.n_bytes
    }

    /// Iterates over all blocks, in no order.
    pub(super) fn iter(&self) -> impl Iterator<Item = LiveBlock> {
        self.slots.iter().filter_map(|slot| slot.block(&self.large))
    }

    /// Returns the slot that has this address, or the empty one where it would be.
    #[inline]
    fn slot_of(&self, address: u64) -> usize {
        let last = self.slots.len() - 1;
        let mut slot = self.home_of(address);
        while self.slots[slot].address() != address && self.slots[slot].address() != 0 {
            slot = (slot + 1) & last;
        }
        slot
    }

    /// Returns where the slot of a block should be. [`GROUP_BYTES`] of addresses have eight slots, in two cache lines. An
    /// allocator's blocks are seldom less than 32 bytes apart.
    #[inline]
    #[allow(clippy::cast_possible_truncation, reason = "the low bits are the slot")]
    fn home_of(&self, address: u64) -> usize {
        // Another factor than that of `memreel_lockfree::heap::mixed`, by which the shard was chosen.
        let group = (address / GROUP_BYTES).wrapping_mul(0xD6E8_FEB8_6659_FD93) >> 32;
        (group << 3 | address >> 5 & 7) as usize & (self.slots.len() - 1)
    }

    /// Loads the slots of the next addresses: programs allocate and free block after block.
    #[inline]
    fn load_ahead(&self, address: u64) {
        let next = self.home_of(address.wrapping_add(GROUP_BYTES)) & !7;
        ahead::load(&self.slots[next]);
        ahead::load(&self.slots[next + 4]);
    }

    /// Doubles the table; returns `false` if there is not enough memory.
    #[cold]
    #[inline(never)]
    fn grow(&mut self) -> bool {
        let n_slots = (self.slots.len() * 2).max(Blocks::FIRST_SLOTS);
        let mut slots = Vec::new();
        if slots.try_reserve_exact(n_slots).is_err() {
            return false;
        }
        slots.resize(n_slots, Slot::EMPTY);
        let before = std::mem::replace(&mut self.slots, slots);
        for moved in before.into_iter().filter(|slot| slot.address() != 0) {
            let slot = self.slot_of(moved.address());
            self.slots[slot] = moved;
        }
        true
    }
}

impl heap::Blocks for Blocks {
    type Block = LiveBlock;
    type Copied = Copied;

    #[inline]
    fn insert(&mut self, block: LiveBlock) -> Inserted<LiveBlock> {
        if (self.n_live + 1) * 3 > self.slots.len() * 2 && !self.grow() {
            return Inserted::NoRoom;
        }
        let new = Slot::of(block);
        if new.is_large() && self.large.0.try_reserve(1).is_err() {
            return Inserted::NoRoom;
        }
        let slot = self.slot_of(block.address);
        self.load_ahead(block.address);
        let before = self.take(slot);
        self.slots[slot] = new;
        if new.is_large() {
            self.large.0.push((new.negated, block.bytes));
        }
        self.n_bytes = self.n_bytes.wrapping_add(block.bytes);
        if let Some(before) = before {
            return Inserted::Replaced(before);
        }
        self.n_live += 1;
        Inserted::New
    }

    #[inline]
    fn remove(&mut self, address: u64) -> Option<LiveBlock> {
        if self.n_live == 0 {
            return None;
        }
        let mut hole = self.slot_of(address);
        self.load_ahead(address);
        let removed = self.take(hole)?;
        self.n_live -= 1;
        // The blocks after it move up, unless their own slot is between the hole and their place.
        let last = self.slots.len() - 1;
        let mut at = hole;
        loop {
            at = (at + 1) & last;
            let slot = self.slots[at];
            if slot.address() == 0 {
                break;
            }
            let home = self.home_of(slot.address());
            if at.wrapping_sub(home) & last >= at.wrapping_sub(hole) & last {
                self.slots[hole] = slot;
                hole = at;
            }
        }
        self.slots[hole] = Slot::EMPTY;
        Some(removed)
    }

    fn get(&self, address: u64) -> Option<LiveBlock> {
        if self.n_live == 0 { None } else { self.slots[self.slot_of(address)].block(&self.large) }
    }

    fn copy_to(&self, copied: &mut Copied) -> Result<(), usize> {
        let Some(room) = copied.room.get_mut(..self.slots.len()) else { return Err(self.slots.len()) };
        room.copy_from_slice(&self.slots);
        copied.large.clone_from(&self.large);
        copied.n_slots = self.slots.len();
        Ok(())
    }

    fn make_room(copied: &mut Copied, n_slots: usize) {
        copied.room.clear();
        copied.room.resize(n_slots, Slot::EMPTY);
    }

    fn copied(copied: &Copied) -> impl Iterator<Item = LiveBlock> {
        copied.room[..copied.n_slots].iter().filter_map(|slot| slot.block(&copied.large))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use memreel_lockfree::heap::{Blocks as _, ShardBlocks, ShardCopy};

    use super::*;
    use crate::process::testing::random::Random;

    /// The B-tree is the oracle.
    #[test]
    fn it_is_a_map_by_address() {
        let mut random = Random::new(3);
        for n_addresses in [1, 5, 100, 3000] {
            let (mut blocks, mut oracle) = (Blocks::default(), BTreeMap::new());
            for step in 0..20_000 {
                let address = 16 * (1 + random.below(n_addresses));
                // Some sizes have no room in a slot, or just so.
                let bytes = step + [0, u64::from(u32::MAX) - 2, 1 << 40][random.index(3)];
                let block = LiveBlock { address, bytes, stack: StackId::NONE };
                // Phases with many and with few live blocks alternate.
                if random.below(4) < if step / 2000 % 2 == 0 { 3 } else { 1 } {
                    let inserted = oracle.insert(address, block).map_or(Inserted::New, Inserted::Replaced);
                    assert_eq!(blocks.insert(block), inserted);
                } else {
                    assert_eq!(blocks.remove(address), oracle.remove(&address));
                }
                assert_eq!(blocks.len(), oracle.len());
                assert_eq!(blocks.get(address), oracle.get(&address).copied());
            }
            assert_eq!(blocks.n_bytes(), oracle.values().map(|block| block.bytes).sum::<u64>());
            let mut all: Vec<LiveBlock> = blocks.iter().collect();
            all.sort_by_key(|block| block.address);
            assert!(all.into_iter().eq(oracle.into_values()));
        }
    }

    fn copied(shard: &mut ShardBlocks<Blocks>) -> BTreeMap<u64, u64> {
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
        let mut shard = ShardBlocks::<Blocks>::default();
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
