//! The live blocks of the heap, in shards with a lock each.
#![forbid(unsafe_code)]

use std::{cell::Cell, marker::PhantomData, sync::atomic::Ordering};

use super::{
    blocks::{Block, Blocks, Inserted},
    mixed::mixed,
    shard::{ShardBlocks, ShardCopy},
    spin::{SpinGuard, SpinLock},
};
use crate::{
    sync::{AtomicU8, AtomicU64, ReentryGuard, Waits, thread_local},
    ticks::Ticks,
};

const N_SHARDS: usize = if cfg!(memreel_loom) { 2 } else { 256 };
/// The size of a shard's sieve in bytes.
const N_SIEVE: usize = if cfg!(memreel_loom) { 1 } else { 256 };
/// The number of shards per word of [`Table::moving`].
const N_BITS: usize = 64;
/// Blocks that start in the same page are in the same shard, so threads with separate arenas rarely meet.
const PAGE_BITS: u32 = 12;

thread_local! {
    /// Whether this thread has all shards locked.
    static HAS_ALL: Cell<bool> = const { Cell::new(false) };
}

thread_local! {
    /// Whether this thread is marking and copying the shards.
    static DUMPS: Cell<bool> = const { Cell::new(false) };
}

/// The blocks by address.
///
/// A thread has one shard's lock at a time, or all of them ([`Table::lock_all`]). While it has one it is within the
/// recorder's own work, so a signal handler or an allocation of the recorder on the same thread does not re-enter the
/// table.
#[derive(Debug)]
pub struct Table<B: Blocks, W> {
    shards: Box<[Shard<B>]>,
    /// One bit per shard: whether it has blocks that requests may have moved away. Changed under the shard's lock. A
    /// thread that got the memory of such a block got it from the thread whose request freed it, which had set the bit
    /// before.
    moving: [AtomicU64; N_SHARDS.div_ceil(N_BITS)],
    /// Taken by a thread that marks the shards and copies them, before any shard.
    dump: SpinLock<()>,
    waits: PhantomData<fn() -> W>,
}

/// A part of the blocks. Aligned so that threads in different shards write to different cache lines.
#[derive(Debug)]
#[repr(align(128))]
struct Shard<B: Blocks> {
    blocks: SpinLock<ShardBlocks<B>>,
    /// For each hash, how many live blocks have it; 255 stands for 255 or more at any time. Changed under the lock, and
    /// read without it: a thread that has a block's address sees at least that block, which was counted before its
    /// allocation returned. Relaxed: the program itself hands the address on, and every later count has the block too.
    sieve: [AtomicU8; N_SIEVE],
}

impl<B: Blocks> Default for Shard<B> {
    fn default() -> Shard<B> {
        Shard { blocks: SpinLock::default(), sieve: std::array::from_fn(|_| AtomicU8::default()) }
    }
}

impl<B: Blocks, W> Default for Table<B, W> {
    fn default() -> Table<B, W> {
        Table {
            shards: std::iter::repeat_with(Shard::default).take(N_SHARDS).collect(),
            moving: std::array::from_fn(|_| AtomicU64::new(0)),
            dump: SpinLock::default(),
            waits: PhantomData,
        }
    }
}

impl<B: Blocks, W: Waits> Table<B, W> {
    /// Returns whether the block at an address may be here; usually `false` if it is not. It takes no lock.
    #[inline(always)]
    pub fn may_have(&self, address: u64) -> bool {
        self.shard(address).sieve[sieve_place(address)].load(Ordering::Relaxed) != 0
    }

    /// Locks the shard of an address; `None` if this thread has all of them.
    #[inline(always)]
    pub fn lock(&self, address: u64) -> Option<LockedShard<'_, B>> {
        self.lock_nth(nth_shard(address))
    }

    #[inline(always)]
    fn lock_nth(&self, nth: usize) -> Option<LockedShard<'_, B>> {
        let shard = &self.shards[nth];
        let blocks = shard.blocks.lock::<W>(|| ReentryGuard::is_held(&HAS_ALL))?;
        let moving = (&self.moving[nth / N_BITS], 1 << (nth % N_BITS));
        Some(LockedShard { blocks, sieve: &shard.sieve, moving, ends_moving: false })
    }

    /// Removes each block that a request has moved away, and calls `look` with it: a new block is in its place, and the
    /// request has not returned yet.
    #[inline(always)]
    pub fn remove_moved_from(&self, new: &B::Block, mut look: impl FnMut(&mut LockedShard<B>, B::Block)) {
        for (nth, word) in self.moving.iter().enumerate() {
            let shards = word.load(Ordering::Acquire);
            if shards != 0 {
                self.remove_moved_in(nth * N_BITS, shards, new, &mut look);
            }
        }
    }

    #[cold]
    #[inline(never)]
    fn remove_moved_in(
        &self,
        first: usize,
        mut shards: u64,
        new: &B::Block,
        look: &mut impl FnMut(&mut LockedShard<B>, B::Block),
    ) {
        while shards != 0 {
            let nth = first + shards.trailing_zeros() as usize;
            shards &= shards - 1;
            let Some(mut shard) = self.lock_nth(nth) else { continue };
            while let Some(address) = shard.blocks.moved_from(&(new.address()..new.end())) {
                let Some(moved) = shard.remove(address) else { break };
                look(&mut shard, moved);
            }
        }
    }

    /// Returns whether no thread has locked the shard of an address.
    pub fn is_free(&self, address: u64) -> bool {
        self.shard(address).blocks.try_lock().is_some()
    }

    /// Returns whether requests may have moved blocks away.
    pub fn has_moving(&self) -> bool {
        self.moving.iter().any(|word| word.load(Ordering::Relaxed) != 0)
    }

    /// Locks all shards, so that no block is added or removed meanwhile; `None` if this thread has already locked them.
    pub fn lock_all(&self) -> Option<LockedTable<'_, B>> {
        // First, so that later allocations of this thread do not wait for the thread itself.
        let flag = ReentryGuard::enter(&HAS_ALL)?;
        // Before the first lock, because other threads wait for all of them.
        let mut shards = Vec::with_capacity(N_SHARDS);
        shards.extend(self.shards.iter().filter_map(|shard| shard.blocks.lock::<W>(|| false)));
        Some(LockedTable { shards, _flag: flag })
    }

    /// Returns the right to mark all shards and copy them; `None` if this thread already has it.
    pub fn begin_dump(&self) -> Option<Dump<'_, B, W>> {
        let flag = ReentryGuard::enter(&DUMPS)?;
        let turn = self.dump.lock::<W>(|| false)?;
        Some(Dump { table: self, _turn: turn, _flag: flag })
    }

    /// Takes every lock before a fork. `waits` must not return before its argument returns true.
    pub fn hold_for_fork(&self, mut waits: impl FnMut(&mut dyn FnMut() -> bool)) {
        for shard in &self.shards {
            waits(&mut || shard.blocks.try_hold_for_fork());
        }
    }

    /// Releases the locks in a child of a fork, and ends the dump of a thread that does not exist there.
    pub fn begin_again_in_child(&self) {
        self.release_after_fork();
        for shard in &self.shards {
            if let Some(mut blocks) = shard.blocks.try_lock() {
                blocks.forget_mark();
            }
        }
        self.dump.release_in_child();
    }

    /// Releases the locks that [`Table::hold_for_fork`] took.
    pub fn release_after_fork(&self) {
        self.shards.iter().for_each(|shard| shard.blocks.release_after_fork());
    }

    #[inline(always)]
    fn shard(&self, address: u64) -> &Shard<B> {
        &self.shards[nth_shard(address)]
    }
}

#[inline(always)]
#[allow(clippy::cast_possible_truncation, reason = "the high eight bits are the shard")]
fn nth_shard(address: u64) -> usize {
    (mixed(address >> PAGE_BITS << 4) >> 56) as usize % N_SHARDS
}

#[inline(always)]
#[allow(clippy::cast_possible_truncation, reason = "eight bits are the place")]
fn sieve_place(address: u64) -> usize {
    (mixed(address) >> 48) as usize % N_SIEVE
}

/// A shard that this thread has locked.
#[derive(Debug)]
pub struct LockedShard<'a, B: Blocks> {
    blocks: SpinGuard<'a, ShardBlocks<B>>,
    sieve: &'a [AtomicU8; N_SIEVE],
    /// Its bit in [`Table::moving`].
    moving: (&'a AtomicU64, u64),
    /// Whether the last moving block was removed.
    ends_moving: bool,
}

/// Clears the bit once the free of the moved block is recorded: a thread that then finds it cleared records a block in
/// its place later.
impl<B: Blocks> Drop for LockedShard<'_, B> {
    #[inline(always)]
    fn drop(&mut self) {
        if self.ends_moving && !self.blocks.has_moving() {
            self.moving.0.fetch_and(!self.moving.1, Ordering::Release);
        }
    }
}

impl<B: Blocks> LockedShard<'_, B> {
    /// Adds a block of this shard.
    #[inline]
    pub fn insert(&mut self, block: B::Block) -> Inserted<B::Block> {
        let inserted = self.blocks.insert(block);
        match inserted {
            Inserted::New => self.count(block.address(), |n| n.saturating_add(1)),
            Inserted::Replaced(_) => self.ends_moving = true,
            Inserted::NoRoom => {}
        }
        inserted
    }

    /// Removes the block at an address of this shard and returns it.
    #[inline]
    pub fn remove(&mut self, address: u64) -> Option<B::Block> {
        self.ends_moving |= self.blocks.has_moving();
        let removed = self.blocks.remove(address)?;
        self.count(address, |n| if n == u8::MAX { n } else { n - 1 });
        Some(removed)
    }

    /// Records that a request may move the block at an address of this shard; see [`ShardBlocks::begin_move`].
    #[inline]
    pub fn begin_move(&mut self, address: u64) -> Option<u32> {
        let had_moving = self.blocks.has_moving();
        let number = self.blocks.begin_move(address)?;
        if !had_moving && self.blocks.has_moving() {
            self.moving.0.fetch_or(self.moving.1, Ordering::Relaxed);
        }
        Some(number)
    }

    /// Removes the block that a request has moved away from an address of this shard, and returns it; `None` if another block
    /// has the address.
    #[inline]
    pub fn remove_moved(&mut self, address: u64, move_number: u32) -> Option<B::Block> {
        self.blocks.is_moving(address, move_number).then(|| self.remove(address)).flatten()
    }

    /// Returns the time of the shard's newest event, for the next event.
    #[inline(always)]
    pub fn newest(&mut self) -> &mut Ticks {
        self.blocks.newest()
    }

    #[inline(always)]
    fn count(&self, address: u64, change: impl Fn(u8) -> u8) {
        let place = &self.sieve[sieve_place(address)];
        // Relaxed: the lock orders the changes, and readers need no more than the count (see `sieve`).
        place.store(change(place.load(Ordering::Relaxed)), Ordering::Relaxed);
    }
}

/// All shards, which this thread has locked.
#[derive(Debug)]
pub struct LockedTable<'a, B: Blocks> {
    shards: Vec<SpinGuard<'a, ShardBlocks<B>>>,
    /// Cleared last.
    _flag: ReentryGuard,
}

impl<B: Blocks> LockedTable<'_, B> {
    /// Iterates over the blocks of each shard.
    pub fn shards(&self) -> impl Iterator<Item = &B> {
        self.shards.iter().map(|shard| shard.blocks())
    }

    /// Makes every later event later than a time.
    pub fn set_newest(&mut self, at: Ticks) {
        self.shards.iter_mut().for_each(|shard| *shard.newest() = at.max(*shard.newest()));
    }

    /// Marks the current moment in every shard.
    pub fn mark<W>(&mut self, _: &Dump<'_, B, W>) {
        self.shards.iter_mut().for_each(|shard| shard.mark());
    }
}

/// The right to mark all shards and copy them, which one thread at a time has.
#[derive(Debug)]
pub struct Dump<'a, B: Blocks, W> {
    table: &'a Table<B, W>,
    _turn: SpinGuard<'a, ()>,
    /// Cleared last.
    _flag: ReentryGuard,
}

impl<B: Blocks, W: Waits> Dump<'_, B, W> {
    /// Calls `look` with every block at the moment of the mark, in no order. Returns whether the blocks are complete.
    ///
    /// Other threads wait for the copy of at most one shard. This one is within the recorder's own work.
    pub fn each_block(self, mut look: impl FnMut(B::Block)) -> bool {
        let mut copy = ShardCopy::default();
        let mut are_all = true;
        for shard in &self.table.shards {
            while let Some(Err(n_slots)) =
                shard.blocks.lock::<W>(|| false).map(|mut blocks| blocks.copy_to(&mut copy))
            {
                copy.make_room(n_slots);
            }
            are_all &= copy.each(&mut look);
        }
        are_all
    }
}

#[cfg(all(test, not(memreel_loom)))]
mod tests {
    use super::*;
    use crate::testing::{Map, Yields};

    type Table = super::Table<Map, Yields>;

    fn block(address: u64) -> (u64, u64) {
        (address, 1)
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
        assert_eq!(table.lock_all().unwrap().shards().map(Map::len).sum::<usize>(), 4999);
        for address in addresses() {
            assert_eq!(table.lock(address).unwrap().remove(address), Some(block(address)));
            assert_eq!(table.lock(address).unwrap().remove(address), None);
        }
        assert!(!addresses().any(|address| table.may_have(address)));
    }

    #[test]
    fn a_dump_is_of_one_moment_and_a_child_has_none() {
        let table = Table::default();
        let addresses = || (1..5000_u64).map(|n| n * 48);
        let add = |address| table.lock(address).unwrap().insert(block(address));
        addresses().for_each(|address| _ = add(address));
        let dump = table.begin_dump().unwrap();
        assert!(table.begin_dump().is_none(), "this thread has it");
        let mut all = table.lock_all().unwrap();
        assert_eq!(all.shards().map(Map::len).sum::<usize>(), 4999);
        all.mark(&dump);
        drop(all);
        addresses().for_each(|address| _ = table.lock(address).unwrap().remove(address));
        add(16);
        let mut seen = Vec::new();
        assert!(dump.each_block(|block| seen.push(block.0)));
        seen.sort_unstable();
        assert!(seen.into_iter().eq(addresses()));
        // A fork while another thread dumps: its mark and its turn end.
        let dump = table.begin_dump().unwrap();
        table.lock_all().unwrap().mark(&dump);
        std::mem::forget(dump);
        table.hold_for_fork(|is_held| assert!(is_held()));
        DUMPS.set(false);
        table.begin_again_in_child();
        add(32);
        let mut seen = Vec::new();
        table.begin_dump().unwrap().each_block(|block| seen.push(block.0));
        seen.sort_unstable();
        assert_eq!(seen, [16, 32]);
    }

    #[test]
    fn a_thread_with_all_shards_does_not_wait_for_itself() {
        let table = Table::default();
        let all = table.lock_all();
        assert!(table.lock(16).is_none() && table.lock_all().is_none());
        drop(all);
        assert!(table.lock(16).is_some());
    }

    /// Uses more blocks with one hash than a byte can count.
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
