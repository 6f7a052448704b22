//! The blocks of an allocator in an arena, where neighbours are linked by number.
#![forbid(unsafe_code)]

use super::{
    ids::{BlockId, PoolIndex, RangeIndex},
    stream_table::StreamSet,
};
use memreel_snapshot::words::{Action, Address, BlockState, Event, PoolId, StackId, StreamId};

/// A block: a piece of a segment.
///
/// When blocks split and merge, the rules determine which object survives. That determines the stale `requested_bytes`
/// and segment stacks in snapshots (`docs/caching-allocator.md` 3.6, 4.3, 9.3).
#[derive(Debug)]
pub(super) struct Block {
    pub(super) address: Address,
    pub(super) bytes: u64,
    /// The size of the last request that the block served; stale while it is free.
    pub(super) requested_bytes: u64,
    pub(super) stream: StreamId,
    pub(super) pool: PoolIndex,
    pub(super) is_allocated: bool,
    /// False only for the parts of an expandable segment that have no memory.
    pub(super) is_mapped: bool,
    /// The expandable segment that the block is a piece of.
    pub(super) range: Option<RangeIndex>,
    /// How many searches its pool had served when the block became free.
    pub(super) freed_at: u64,
    /// The neighbours within the segment.
    pub(super) prev: Option<BlockId>,
    pub(super) next: Option<BlockId>,
    /// Other streams that use the block. Boxed, because few blocks have any and
    /// an inline table would make every block half as large again.
    pub(super) stream_uses: Option<Box<StreamSet>>,
    /// The number of marks that those streams have not passed yet.
    pub(super) n_marks: u32,
    /// The stack of the allocation, until its free is completed.
    pub(super) stack: StackId,
    /// The stack of the request that created the segment.
    pub(super) segment_stack: StackId,
}

impl Block {
    /// Creates a block that fills a segment.
    pub(super) fn segment(
        address: Address,
        bytes: u64,
        stream: StreamId,
        pool: PoolIndex,
        stack: StackId,
    ) -> Block {
        Block { segment_stack: stack, ..Block::piece(address, bytes, stream, pool) }
    }

    /// Creates a block of all addresses of an expandable segment, without memory.
    pub(super) fn range(
        address: Address,
        bytes: u64,
        stream: StreamId,
        pool: PoolIndex,
        range: RangeIndex,
    ) -> Block {
        Block { is_mapped: false, range: Some(range), ..Block::piece(address, bytes, stream, pool) }
    }

    /// Creates a block that was never allocated.
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

    /// Returns true if the block is only a part of its segment.
    #[inline]
    pub(super) fn is_split(&self) -> bool {
        self.prev.is_some() || self.next.is_some()
    }

    /// Returns true if another stream uses the block and has no mark yet.
    pub(super) fn has_stream_uses(&self) -> bool {
        self.stream_uses.as_ref().is_some_and(|uses| !uses.is_empty())
    }

    /// Returns an event of the block with its requested size.
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
    /// By number; the first slot stays empty.
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

    /// Iterates over all blocks with their numbers.
    pub(super) fn iter(&self) -> impl Iterator<Item = (BlockId, &Block)> {
        let slots = self.slots.iter().enumerate();
        // The first slot is empty, so index 0 is never converted.
        slots.filter_map(|(index, slot)| slot.as_ref().map(|block| (BlockId::from_index(index), block)))
    }

    /// Splits a block: a new block takes the first `bytes` bytes, the old one becomes the rest.
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

    /// Splits a block: it keeps the first `bytes` bytes, a new block takes the rest.
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

    /// Merges a neighbour into a block, which survives, and returns the
    /// neighbour's size in bytes. A left neighbour passes its segment stack on,
    /// even an absent one (`docs/caching-allocator.md` 4.3).
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
