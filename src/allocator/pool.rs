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
    /// Before every block of that stream and size: none has address 0.
    fn least(stream: StreamId, bytes: u64) -> Key {
        Key { stream, bytes, address: Address(0), id: BlockId::LEAST }
    }

    fn of(id: BlockId, block: &Block) -> Key {
        Key { stream: block.stream, bytes: block.bytes, address: block.address, id }
    }
}

/// The free blocks of one kind.
#[derive(Debug)]
pub(super) struct Pool {
    pub(super) kind: PoolKind,
    pub(super) id: PoolId,
    /// Each request gets a block of its own (a private pool's option).
    pub(super) never_splits: bool,
    /// How many requests have searched here, while ages count.
    pub(super) n_searches: u64,
    free: BTreeSet<Key>,
    /// Parts of expandable segments without memory, by stream and address.
    unmapped: BTreeSet<(StreamId, Address, BlockId)>,
}

impl Pool {
    pub(super) fn new(kind: PoolKind, id: PoolId) -> Pool {
        Pool {
            kind,
            id,
            never_splits: false,
            n_searches: 0,
            free: BTreeSet::new(),
            unmapped: BTreeSet::new(),
        }
    }

    /// The free blocks of a stream that hold a request, the smallest first,
    /// the lowest first among equals.
    pub(super) fn fitting(&self, stream: StreamId, bytes: u64) -> impl Iterator<Item = BlockId> {
        let after = self.free.range(Key::least(stream, bytes)..);
        after.take_while(move |key| key.stream == stream).map(|key| key.id)
    }

    /// The free blocks before the first that [`Pool::fitting`] would give, the
    /// last first, whatever their stream.
    pub(super) fn below(&self, stream: StreamId, bytes: u64) -> impl Iterator<Item = BlockId> {
        self.free.range(..Key::least(stream, bytes)).rev().map(|key| key.id)
    }

    /// Puts a block in, mapped or not, where it belongs.
    pub(super) fn insert(&mut self, id: BlockId, block: &mut Block) {
        block.freed_at = self.n_searches;
        let is_new = if block.is_mapped {
            self.free.insert(Key::of(id, block))
        } else {
            self.unmapped.insert((block.stream, block.address, id))
        };
        debug_assert!(is_new, "{id:?} was free already");
    }

    /// Takes a block out; its fields are as they were when it went in.
    pub(super) fn remove(&mut self, id: BlockId, block: &Block) {
        let was_there = if block.is_mapped {
            self.free.remove(&Key::of(id, block))
        } else {
            self.unmapped.remove(&(block.stream, block.address, id))
        };
        debug_assert!(was_there, "{id:?} was not free");
    }

    /// The free blocks, in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = BlockId> {
        self.free.iter().map(|key| key.id)
    }

    /// A stream's parts without memory, by address.
    pub(super) fn unmapped(&self, stream: StreamId) -> impl Iterator<Item = BlockId> {
        let from = (stream, Address(0), BlockId::LEAST);
        self.unmapped.range(from..).take_while(move |(on, ..)| *on == stream).map(|(.., id)| *id)
    }

    /// All parts without memory, in order.
    pub(super) fn all_unmapped(&self) -> impl Iterator<Item = BlockId> {
        self.unmapped.iter().map(|(.., id)| *id)
    }
}
