//! Pools of free blocks, searched by stream and size for the best fit.
#![forbid(unsafe_code)]

use std::{
    collections::BTreeMap,
    ops::{Index, IndexMut},
};

use super::{
    block::Block,
    free_set::FreeSet,
    ids::{BlockId, PoolIndex},
};
use memreel_snapshot::words::{Address, PoolId, StreamId};

/// All pools of an allocator: the default pair, then the private pairs.
#[derive(Debug, Default)]
pub(super) struct Pools {
    /// By number.
    pools: Vec<Pool>,
    /// Pairs of erased private pools, whose numbers are reused.
    vacant: Vec<[PoolIndex; 2]>,
}

impl Pools {
    /// Adds a pair of pools: small, then large.
    pub(super) fn add(&mut self, id: PoolId, never_splits: bool) -> [PoolIndex; 2] {
        let pair = self.vacant.pop().unwrap_or_else(|| {
            let first = u32::try_from(self.pools.len()).expect("fewer than 2^32 pools");
            self.pools.extend([Pool::vacant(), Pool::vacant()]);
            [PoolIndex(first), PoolIndex(first + 1)]
        });
        pair.into_iter().for_each(|pool| self[pool] = Pool::new(id, never_splits));
        pair
    }

    /// Removes a pair of pools that have no blocks.
    pub(super) fn remove(&mut self, pair: [PoolIndex; 2]) {
        pair.into_iter().for_each(|pool| self[pool] = Pool::vacant());
        self.vacant.push(pair);
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Pool> {
        self.pools.iter()
    }

    pub(super) fn indices(&self) -> impl Iterator<Item = PoolIndex> + use<> {
        (0..).map(PoolIndex).take(self.pools.len())
    }
}

impl Index<PoolIndex> for Pools {
    type Output = Pool;

    #[inline]
    fn index(&self, index: PoolIndex) -> &Pool {
        &self.pools[index.0 as usize]
    }
}

impl IndexMut<PoolIndex> for Pools {
    #[inline]
    fn index_mut(&mut self, index: PoolIndex) -> &mut Pool {
        &mut self.pools[index.0 as usize]
    }
}

/// One pool of free blocks.
#[derive(Debug)]
pub(super) struct Pool {
    pub(super) id: PoolId,
    /// Whether blocks are never split (an option of private pools).
    pub(super) never_splits: bool,
    /// The number of requests that searched the pool while garbage collection was on.
    pub(super) n_searches: u64,
    /// By stream, size and address (`docs/caching-allocator.md` 2.2).
    free: FreeSet,
    /// Unmapped pieces of expandable segments, by stream and address.
    unmapped: BTreeMap<(StreamId, Address), BlockId>,
}

impl Pool {
    /// Creates a pool that is not in use. No private pool has its id, so a request for the pool that had its number is
    /// recognised.
    fn vacant() -> Pool {
        Pool::new(PoolId::DEFAULT, false)
    }

    fn new(id: PoolId, never_splits: bool) -> Pool {
        Pool { id, never_splits, n_searches: 0, free: FreeSet::default(), unmapped: BTreeMap::new() }
    }

    /// Removes and returns the first block of [`Pool::fitting`] if `serves` accepts it.
    #[inline]
    pub(super) fn take_best_fit(
        &mut self,
        stream: StreamId,
        bytes: u64,
        serves: impl FnOnce(BlockId) -> bool,
    ) -> Option<BlockId> {
        self.free.take_best_fit(stream, bytes, serves)
    }

    /// Iterates over a stream's free blocks of at least `bytes` bytes, smallest first, then lowest address first.
    pub(super) fn fitting(&self, stream: StreamId, bytes: u64) -> impl Iterator<Item = BlockId> {
        self.free.fitting(stream, bytes)
    }

    /// Iterates over a stream's free blocks below `bytes` bytes, largest first, then highest address first.
    pub(super) fn below(&self, stream: StreamId, bytes: u64) -> impl Iterator<Item = BlockId> {
        self.free.below(stream, bytes)
    }

    /// Inserts a block, mapped or not.
    // Inlined, because it ends every free and a call would cost as much as its work.
    #[inline(always)]
    pub(super) fn insert(&mut self, id: BlockId, block: &mut Block) {
        block.freed_at = self.n_searches;
        let is_new = if block.is_mapped {
            self.free.insert(block.stream, block.bytes, block.address, id)
        } else {
            self.unmapped.insert((block.stream, block.address), id).is_none()
        };
        debug_assert!(is_new, "{id:?} was free already");
    }

    /// Removes a block, whose fields have not changed since it was inserted.
    #[inline]
    pub(super) fn remove(&mut self, id: BlockId, block: &Block) {
        let was_there = if block.is_mapped {
            self.free.remove(block.stream, block.bytes, block.address)
        } else {
            self.unmapped.remove(&(block.stream, block.address)).is_some()
        };
        debug_assert!(was_there, "{id:?} was not free");
    }

    /// Iterates over the free mapped blocks, in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = BlockId> {
        self.free.iter()
    }

    /// Iterates over a stream's unmapped pieces, by address.
    pub(super) fn unmapped(&self, stream: StreamId) -> impl Iterator<Item = BlockId> {
        let from = (stream, Address(0));
        self.unmapped.range(from..).take_while(move |((on, _), _)| *on == stream).map(|(_, id)| *id)
    }

    /// Iterates over all unmapped pieces, by stream and address.
    pub(super) fn all_unmapped(&self) -> impl Iterator<Item = BlockId> {
        self.unmapped.values().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_removed_pools_are_used_again() {
        let mut pools = Pools::default();
        pools.add(PoolId::DEFAULT, false);
        let first = pools.add(PoolId::of_user(1), true);
        let second = pools.add(PoolId::of_user(2), false);
        pools.remove(first);
        assert_ne!(pools[first[0]].id, PoolId::of_user(1));
        assert_eq!(pools.add(PoolId::of_user(3), false), first);
        assert!(!pools[first[1]].never_splits && pools[first[1]].id == PoolId::of_user(3));
        assert_eq!((pools.indices().count(), pools[second[0]].id), (6, PoolId::of_user(2)));
    }
}
