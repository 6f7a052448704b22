//! The live blocks of the heap, in shards with a lock each.
#![forbid(unsafe_code)]

use std::{
    cell::Cell,
    sync::atomic::{AtomicU8, Ordering},
};

use super::{
    blocks::{Blocks, Inserted, LiveBlock, mixed},
    spin::{SpinGuard, SpinLock},
};
use crate::process::sync::{ReentryGuard, thread_local};

const N_SHARDS: usize = 256;
/// Bytes of a shard's sieve.
const N_SIEVE: usize = 256;
/// Blocks that begin in the same page are in the same shard, so that threads with arenas of their own rarely meet.
const PAGE_BITS: u32 = 12;

thread_local! {
    /// Whether this thread has all shards locked.
    static HAS_ALL: Cell<bool> = const { Cell::new(false) };
}

/// The blocks by address.
///
/// A thread has one shard's lock at a time, or all of them ([`Table::lock_all`]). While it has one it is within the
/// recorder's own work, so a signal handler or an allocation of the recorder on the same thread does not come here.
#[derive(Debug)]
pub(super) struct Table {
    shards: Box<[Shard]>,
}

/// Some of the blocks. Aligned so that threads in different shards write to different cache lines.
#[derive(Debug)]
#[repr(align(128))]
struct Shard {
    blocks: SpinLock<Blocks>,
    /// For each hash, how many live blocks have it; 255 are 255 or more at any time. Changed under the lock, and read
    /// without it: a thread that has a block's address sees at least that block, which was counted before its
    /// allocation returned.
    sieve: [AtomicU8; N_SIEVE],
}

impl Default for Shard {
    fn default() -> Shard {
        Shard { blocks: SpinLock::default(), sieve: [const { AtomicU8::new(0) }; N_SIEVE] }
    }
}

impl Default for Table {
    fn default() -> Table {
        Table { shards: std::iter::repeat_with(Shard::default).take(N_SHARDS).collect() }
    }
}

impl Table {
    /// Returns whether the block at an address may be here; mostly `false` if it is not. It takes no lock.
    #[inline(always)]
    pub(super) fn may_have(&self, address: u64) -> bool {
        self.shard(address).sieve[sieve_place(address)].load(Ordering::Relaxed) != 0
    }

    /// Locks the shard of an address; `None` if this thread has all of them.
    #[inline(always)]
    pub(super) fn lock(&self, address: u64) -> Option<LockedShard<'_>> {
        let shard = self.shard(address);
        let blocks = shard.blocks.lock(|| ReentryGuard::is_held(&HAS_ALL))?;
        Some(LockedShard { blocks, sieve: &shard.sieve })
    }

    /// Locks all shards, so that no block is added or removed meanwhile; `None` if this thread has them already.
    pub(super) fn lock_all(&self) -> Option<LockedTable<'_>> {
        // First, so that what this thread allocates from now on does not wait for itself.
        let flag = ReentryGuard::enter(&HAS_ALL)?;
        let shards = self.shards.iter().filter_map(|shard| shard.blocks.lock(|| false)).collect();
        Some(LockedTable { shards, _flag: flag })
    }

    /// Takes every lock before a fork. `waits` waits until what it is given returns true.
    #[cfg_attr(loom, allow(dead_code, reason = "nothing forks"))]
    pub(super) fn hold_for_fork(&self, mut waits: impl FnMut(&mut dyn FnMut() -> bool)) {
        for shard in &self.shards {
            waits(&mut || shard.blocks.try_hold_for_fork());
        }
    }

    /// Releases the locks that [`Table::hold_for_fork`] took.
    #[cfg_attr(loom, allow(dead_code, reason = "nothing forks"))]
    pub(super) fn release_after_fork(&self) {
        self.shards.iter().for_each(|shard| shard.blocks.release_after_fork());
    }

    #[inline(always)]
    #[allow(clippy::cast_possible_truncation, reason = "the high eight bits are the shard")]
    fn shard(&self, address: u64) -> &Shard {
        &self.shards[(mixed(address >> PAGE_BITS << 4) >> 56) as usize % N_SHARDS]
    }
}

#[inline(always)]
#[allow(clippy::cast_possible_truncation, reason = "eight bits are the place")]
fn sieve_place(address: u64) -> usize {
    (mixed(address) >> 48) as usize % N_SIEVE
}

/// A shard that this thread has locked.
pub(super) struct LockedShard<'a> {
    blocks: SpinGuard<'a, Blocks>,
    sieve: &'a [AtomicU8; N_SIEVE],
}

impl LockedShard<'_> {
    /// Adds a block of this shard.
    #[inline]
    pub(super) fn insert(&mut self, block: LiveBlock) -> Inserted {
        let inserted = self.blocks.insert(block);
        if inserted == Inserted::New {
            self.count(block.address, |n| n.saturating_add(1));
        }
        inserted
    }

    /// Removes the block at an address of this shard and returns it.
    #[inline]
    pub(super) fn remove(&mut self, address: u64) -> Option<LiveBlock> {
        let removed = self.blocks.remove(address)?;
        self.count(address, |n| if n == u8::MAX { n } else { n - 1 });
        Some(removed)
    }

    #[inline(always)]
    fn count(&self, address: u64, change: impl Fn(u8) -> u8) {
        let place = &self.sieve[sieve_place(address)];
        place.store(change(place.load(Ordering::Relaxed)), Ordering::Relaxed);
    }
}

/// All shards, which this thread has locked.
pub(super) struct LockedTable<'a> {
    shards: Vec<SpinGuard<'a, Blocks>>,
    /// Cleared last.
    _flag: ReentryGuard,
}

impl LockedTable<'_> {
    /// Every block, in no order.
    pub(super) fn blocks(&self) -> impl Iterator<Item = LiveBlock> {
        self.shards.iter().flat_map(|blocks| blocks.iter())
    }

    /// Returns the number of blocks.
    pub(super) fn len(&self) -> usize {
        self.shards.iter().map(|blocks| blocks.len()).sum()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use memreel_snapshot::words::StackId;

    fn block(address: u64) -> LiveBlock {
        LiveBlock { address, bytes: 1, stack: StackId::NONE }
    }

    #[test]
    fn a_block_may_be_there_until_it_is_removed() {
        let table = Table::default();
        let addresses = || (1..5000_u64).map(|n| n * 48);
        assert!(!addresses().any(|address| table.may_have(address)));
        for address in addresses() {
            assert_eq!(table.lock(address).unwrap().insert(block(address)), Inserted::New);
        }
        assert!(addresses().all(|address| table.may_have(address)));
        assert_eq!(table.lock_all().unwrap().len(), 4999);
        for address in addresses() {
            assert_eq!(table.lock(address).unwrap().remove(address), Some(block(address)));
            assert_eq!(table.lock(address).unwrap().remove(address), None);
        }
        assert!(!addresses().any(|address| table.may_have(address)));
    }

    #[test]
    fn a_thread_with_all_shards_does_not_wait_for_itself() {
        let table = Table::default();
        let all = table.lock_all();
        assert!(table.lock(16).is_none() && table.lock_all().is_none());
        drop(all);
        assert!(table.lock(16).is_some());
    }

    /// More blocks with one hash than a byte can count.
    #[test]
    fn a_sieve_that_is_full_stays_full() {
        let table = Table::default();
        let first = 16;
        let same: Vec<u64> = (1..)
            .map(|n| n * 16)
            .filter(|address| {
                std::ptr::eq(table.shard(*address), table.shard(first))
                    && sieve_place(*address) == sieve_place(first)
            })
            .take(300)
            .collect();
        for address in &same {
            assert_eq!(table.lock(*address).unwrap().insert(block(*address)), Inserted::New);
        }
        for address in &same {
            assert_eq!(table.lock(*address).unwrap().remove(*address), Some(block(*address)));
        }
        assert!(same.iter().all(|address| table.may_have(*address)));
    }
}
