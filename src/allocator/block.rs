//! The blocks, in an arena: neighbours are numbers, addresses are offsets, nothing is unsafe.
#![forbid(unsafe_code)]

use super::{
    ids::{BlockId, PoolIndex, RangeIndex},
    stream_table::StreamSet,
};
use crate::{
    event::{Action, Address, Event, PoolId, StackId, StreamId},
    inventory::BlockState,
};

/// A piece of a segment.
///
/// Which object lives on when blocks split and merge is part of the rules:
/// it decides the stale `requested_bytes` and segment stacks that snapshots
/// show (caching-allocator.md 3.6, 4.3, 9.3).
#[derive(Debug)]
pub(super) struct Block {
    pub(super) address: Address,
    pub(super) bytes: u64,
    /// Of the last request served; stale while the block is free.
    pub(super) requested_bytes: u64,
    pub(super) stream: StreamId,
    pub(super) pool: PoolIndex,
    pub(super) is_allocated: bool,
    /// False only for the parts of an expandable segment that have no memory.
    pub(super) is_mapped: bool,
    /// The expandable segment it is a piece of.
    pub(super) range: Option<RangeIndex>,
    /// How many searches its pool had seen when it became free.
    pub(super) freed_at: u64,
    /// The neighbours within the segment.
    pub(super) prev: Option<BlockId>,
    pub(super) next: Option<BlockId>,
    /// Other streams that use it. Few blocks have any, and every block would be
    /// half as large again with a table.
    pub(super) stream_uses: Option<Box<StreamSet>>,
    /// Marks that those streams have not passed yet.
    pub(super) n_marks: u32,
    /// Of the allocation, until its free is completed.
    pub(super) stack: StackId,
    /// Of the request that made the segment.
    pub(super) segment_stack: StackId,
}

impl Block {
    /// A whole segment.
    pub(super) fn segment(
        address: Address,
        bytes: u64,
        stream: StreamId,
        pool: PoolIndex,
        stack: StackId,
    ) -> Block {
        Block { segment_stack: stack, ..Block::piece(address, bytes, stream, pool) }
    }

    /// The whole of an expandable segment's addresses, without memory.
    pub(super) fn range(
        address: Address,
        bytes: u64,
        stream: StreamId,
        pool: PoolIndex,
        range: RangeIndex,
    ) -> Block {
        Block { is_mapped: false, range: Some(range), ..Block::piece(address, bytes, stream, pool) }
    }

    /// A piece without a history.
    fn piece(address: Address, bytes: u64, stream: StreamId, pool: PoolIndex) -> Block {
        Block {
            address,
            bytes,
            requested_bytes: 0,
            stream,
            pool,
            is_allocated: false,
            is_mapped: true,
            range: None,
            freed_at: 0,
            prev: None,
            next: None,
            stream_uses: None,
            n_marks: 0,
            stack: StackId::NONE,
            segment_stack: StackId::NONE,
        }
    }

    #[inline]
    /// Whether it is only a part of its segment.
    pub(super) fn is_split(&self) -> bool {
        self.prev.is_some() || self.next.is_some()
    }

    /// Whether another stream uses it that has no mark yet.
    pub(super) fn has_stream_uses(&self) -> bool {
        self.stream_uses.as_ref().is_some_and(|uses| !uses.is_empty())
    }

    /// What happens to it, with the size that was asked for.
    #[inline]
    pub(super) fn event(&self, action: Action, pool: PoolId, stack: StackId) -> Event {
        let Block { address, requested_bytes: size_bytes, stream, .. } = *self;
        Event { action, address, size_bytes, stream, pool, stack }
    }

    pub(super) fn state(&self) -> BlockState {
        if self.is_allocated {
            BlockState::ActiveAllocated
        } else if self.n_marks > 0 || self.has_stream_uses() {
            BlockState::ActivePendingFree
        } else {
            BlockState::Inactive
        }
    }
}

/// All blocks of one allocator.
#[derive(Debug)]
pub(super) struct Blocks {
    /// By number; the first stays empty.
    slots: Vec<Option<Block>>,
    vacant: Vec<BlockId>,
}

impl Default for Blocks {
    fn default() -> Blocks {
        Blocks { slots: vec![None], vacant: Vec::new() }
    }
}

impl Blocks {
    pub(super) fn insert(&mut self, block: Block) -> BlockId {
        if let Some(id) = self.vacant.pop() {
            self.slots[id.index()] = Some(block);
            return id;
        }
        let id = BlockId::from_index(self.slots.len());
        self.slots.push(Some(block));
        id
    }

    pub(super) fn remove(&mut self, id: BlockId) -> Block {
        let block = self.slots[id.index()].take().expect("a removed block was there");
        self.vacant.push(id);
        block
    }

    /// Every block with its number.
    pub(super) fn iter(&self) -> impl Iterator<Item = (BlockId, &Block)> {
        let slots = self.slots.iter().enumerate();
        // The empty first one has no number.
        slots.filter_map(|(index, slot)| slot.as_ref().map(|block| (BlockId::from_index(index), block)))
    }

    /// Cuts a block: a new block takes the first `bytes`, the old one becomes the rest.
    pub(super) fn split(&mut self, id: BlockId, bytes: u64) -> BlockId {
        let rest = &mut self[id];
        let mut front = Block::piece(rest.address, bytes, rest.stream, rest.pool);
        front.prev = rest.prev;
        front.next = Some(id);
        front.is_mapped = rest.is_mapped;
        front.range = rest.range;
        rest.address = rest.address.offset(bytes);
        rest.bytes -= bytes;
        let before = rest.prev;
        let front = self.insert(front);
        self[id].prev = Some(front);
        if let Some(before) = before {
            self[before].next = Some(front);
        }
        front
    }

    /// Cuts a block: it keeps the first `bytes`, a new block takes the rest.
    pub(super) fn split_tail(&mut self, id: BlockId, bytes: u64) -> BlockId {
        let front = &mut self[id];
        let address = front.address.offset(bytes);
        let mut tail = Block::piece(address, front.bytes - bytes, front.stream, front.pool);
        tail.is_mapped = front.is_mapped;
        tail.range = front.range;
        tail.prev = Some(id);
        tail.next = front.next;
        front.bytes = bytes;
        let after = front.next;
        let tail = self.insert(tail);
        self[id].next = Some(tail);
        if let Some(after) = after {
            self[after].prev = Some(tail);
        }
        tail
    }

    /// Merges a neighbour into a block, which lives on. A neighbour to the left
    /// gives its segment stack, even an absent one (caching-allocator.md 4.3).
    /// Says how large it was.
    pub(super) fn absorb(&mut self, id: BlockId, neighbour: BlockId) -> u64 {
        let absorbed = &self[neighbour];
        let (address, bytes, segment_stack) = (absorbed.address, absorbed.bytes, absorbed.segment_stack);
        let (before, after) = (absorbed.prev, absorbed.next);
        self.slots[neighbour.index()] = None;
        self.vacant.push(neighbour);
        let block = &mut self[id];
        block.bytes += bytes;
        if block.prev == Some(neighbour) {
            block.address = address;
            block.prev = before;
            block.segment_stack = segment_stack;
            if let Some(before) = before {
                self[before].next = Some(id);
            }
        } else {
            block.next = after;
            if let Some(after) = after {
                self[after].prev = Some(id);
            }
        }
        bytes
    }
}

impl std::ops::Index<BlockId> for Blocks {
    type Output = Block;

    #[inline]
    fn index(&self, id: BlockId) -> &Block {
        self.slots[id.index()].as_ref().expect("a block's number is used only while it lives")
    }
}

impl std::ops::IndexMut<BlockId> for Blocks {
    #[inline]
    fn index_mut(&mut self, id: BlockId) -> &mut Block {
        self.slots[id.index()].as_mut().expect("a block's number is used only while it lives")
    }
}
