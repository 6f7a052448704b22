//! Free blocks by stream and size; best fit.
#![forbid(unsafe_code)]

use std::collections::BTreeSet;

use super::block::{Block, BlockId};
use crate::{
    event::{Address, PoolId, StreamId},
    inventory::PoolKind,
};

/// The number of a pool in its allocator.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct PoolIndex(pub(super) usize);

/// The order of free blocks: by stream handle, then size, then address (caching-allocator.md 2.2).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Key {
    stream: StreamId,
    bytes: u64,
    address: Address,
    id: BlockId,
}

impl Key {
    fn of(id: BlockId, block: &Block) -> Key {
        Key { stream: block.stream, bytes: block.bytes, address: block.address, id }
    }
}

/// The free blocks of one kind.
#[derive(Debug)]
pub(super) struct Pool {
    pub(super) kind: PoolKind,
    pub(super) id: PoolId,
    free: BTreeSet<Key>,
}

impl Pool {
    pub(super) fn new(kind: PoolKind, id: PoolId) -> Pool {
        Pool { kind, id, free: BTreeSet::new() }
    }

    /// The smallest free block of a stream that holds the request, the lowest on ties.
    pub(super) fn best_fit(&self, stream: StreamId, bytes: u64) -> Option<BlockId> {
        // No block has address 0, so this bound comes before every block of its size.
        let least = Key { stream, bytes, address: Address(0), id: BlockId::LEAST };
        self.free.range(least..).next().filter(|key| key.stream == stream).map(|key| key.id)
    }

    pub(super) fn insert(&mut self, id: BlockId, block: &Block) {
        let is_new = self.free.insert(Key::of(id, block));
        debug_assert!(is_new, "{id:?} was free already");
    }

    /// Takes a block out; its fields are as they were when it went in.
    pub(super) fn remove(&mut self, id: BlockId, block: &Block) {
        let was_there = self.free.remove(&Key::of(id, block));
        debug_assert!(was_there, "{id:?} was not free");
    }

    /// The free blocks, in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = BlockId> {
        self.free.iter().map(|key| key.id)
    }
}
