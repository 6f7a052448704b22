//! Segments that grow and shrink by pages (caching-allocator.md 6).

use super::{
    block::Block,
    heap::{Heap, Request},
    ids::{BlockId, PoolIndex, RangeIndex},
    size,
};
use crate::{
    error::Result,
    event::{Action, Address, StackId},
    inventory::BlockState,
};

impl Heap {
    /// Room for a request in an expandable segment: the first place where free
    /// pieces, mapped or not, stand in a row long enough. Pages that fail to
    /// come leave what came before mapped and free.
    pub(super) fn grow_expandable(&mut self, request: &Request) -> Result<Option<BlockId>> {
        let Some(mut candidate) = self.find_room(request)? else { return Ok(None) };
        if !self.blocks[candidate].is_mapped {
            let bytes = self.blocks[candidate].bytes.min(request.rounded_bytes);
            if !self.map(candidate, bytes, request)? {
                return Ok(None);
            }
        }
        while self.blocks[candidate].bytes < request.rounded_bytes {
            let missing_bytes = request.rounded_bytes - self.blocks[candidate].bytes;
            let next = self.blocks[candidate].next.expect("the row of free pieces is long enough");
            let bytes = self.blocks[next].bytes.min(missing_bytes);
            if !self.map(next, bytes, request)? {
                return Ok(None);
            }
            // The new pages have absorbed what stood before them.
            candidate = next;
        }
        self.pools[request.pool].remove(candidate, &self.blocks[candidate]);
        Ok(Some(candidate))
    }

    fn find_room(&mut self, request: &Request) -> Result<Option<BlockId>> {
        let found = self.pools[request.pool]
            .unmapped(request.stream)
            .map(|id| self.blocks[id].prev.filter(|prev| self.is_free(*prev)).unwrap_or(id))
            .find(|start| self.has_row(*start, request.rounded_bytes));
        match found {
            Some(id) => Ok(Some(id)),
            None => self.reserve(request),
        }
    }

    /// Whether free pieces from here on hold that much.
    fn has_row(&self, start: BlockId, bytes: u64) -> bool {
        let row =
            std::iter::successors(Some(start), |id| self.blocks[*id].next.filter(|next| self.is_free(*next)));
        let mut sum = 0;
        row.map(|id| self.blocks[id].bytes).any(|piece| {
            sum += piece;
            sum >= bytes
        })
    }

    fn is_free(&self, id: BlockId) -> bool {
        self.blocks[id].state() == BlockState::Inactive
    }

    /// A new expandable segment: addresses alone.
    fn reserve(&mut self, request: &Request) -> Result<Option<BlockId>> {
        let kind = request.pool.kind();
        let page_bytes = size::page_bytes(kind, &self.settings);
        let bytes = size::range_bytes(self.segments.device().total_bytes(), page_bytes);
        if bytes < request.rounded_bytes {
            return Ok(None);
        }
        let Some(range) = self.segments.reserve(bytes, page_bytes)? else { return Ok(None) };
        let base = self.segments.range(range).base;
        let block = Block::range(base, bytes, request.stream, request.pool, range);
        let id = self.blocks.insert(block);
        self.pools[request.pool].insert(id, &mut self.blocks[id]);
        Ok(Some(id))
    }

    /// Backs the pages of an unmapped block's first `bytes` with memory. The
    /// block becomes what was mapped, merges with its neighbours, and is free.
    fn map(&mut self, id: BlockId, bytes: u64, request: &Request) -> Result<bool> {
        let Block { address, range, .. } = self.blocks[id];
        let range = range.expect("only pieces of expandable segments are unmapped");
        let bytes = bytes.next_multiple_of(self.segments.range(range).page_bytes);
        // SAFETY: unmapped blocks begin and end at pages of their range (`map`
        // and `unmap` cut nowhere else) and have no memory; the bytes do not
        // exceed the block, which is whole pages.
        if !unsafe { self.segments.map(address, bytes)? } {
            return Ok(false);
        }
        self.pools[request.pool].remove(id, &self.blocks[id]);
        self.cut_tail(id, bytes);
        self.blocks[id].is_mapped = true;
        self.merge_neighbours(id);
        self.pools[request.pool].insert(id, &mut self.blocks[id]);
        let kind = request.pool.kind();
        self.stats.reserved_bytes.add(kind, bytes);
        self.stats.num_device_alloc += 1;
        self.record_range(Action::SegmentMap, id, address, bytes, request.stack);
        let block = &mut self.blocks[id];
        if block.prev.is_none() && !block.segment_stack.is_some() {
            block.segment_stack = request.stack;
        }
        Ok(true)
    }

    /// Leaves a block its first `bytes`; what is behind becomes a block of its
    /// own, unmapped as the whole was.
    fn cut_tail(&mut self, id: BlockId, bytes: u64) {
        if self.blocks[id].bytes > bytes {
            let tail = self.blocks.split_tail(id, bytes);
            let pool = self.blocks[tail].pool;
            self.pools[pool].insert(tail, &mut self.blocks[tail]);
        }
    }

    /// Takes the memory from the whole pages inside a free block. What is left
    /// of it before and behind stays free; with no page inside nothing happens.
    pub(super) fn unmap(&mut self, id: BlockId, stack: StackId) {
        let Block { address, bytes, pool, range, segment_stack, .. } = self.blocks[id];
        let range = range.expect("only pieces of expandable segments are unmapped");
        let (start, unmapped_bytes) = self.segments.range(range).whole_pages(address, bytes);
        if unmapped_bytes == 0 {
            return;
        }
        self.pools[pool].remove(id, &self.blocks[id]);
        let before_bytes = start.0 - address.0;
        if before_bytes > 0 {
            let before = self.blocks.split(id, before_bytes);
            self.pools[pool].insert(before, &mut self.blocks[before]);
        }
        self.cut_tail(id, unmapped_bytes);
        self.blocks[id].is_mapped = false;
        self.merge_neighbours(id);
        self.pools[pool].insert(id, &mut self.blocks[id]);
        let kind = pool.kind();
        self.stats.reserved_bytes.subtract(kind, unmapped_bytes);
        self.stats.num_device_free += 1;
        self.count_device_alloc(pool, -1);
        self.record_range(Action::SegmentUnmap, id, start, unmapped_bytes, stack.or(segment_stack));
        // SAFETY: these are the whole pages inside a block that was free and
        // mapped, so they have memory and nobody holds a block in them; the
        // block has just become unmapped, so this is the only time.
        unsafe { self.segments.unmap(start, unmapped_bytes) };
        if !self.blocks[id].is_split() {
            self.unreserve(id, pool, range);
        }
    }

    /// Gives back the ranges of a pool that got no memory: the device refused
    /// the first pages. Until then they stay, as PyTorch's do, for the next
    /// request to try again.
    pub(super) fn unreserve_bare(&mut self, pool: PoolIndex) {
        let bare: Vec<BlockId> =
            self.pools[pool].all_unmapped().filter(|id| !self.blocks[*id].is_split()).collect();
        for id in bare {
            let range = self.blocks[id].range.expect("only pieces of expandable segments are unmapped");
            self.unreserve(id, pool, range);
        }
    }

    /// The block is all of its range and has no memory: the range goes.
    fn unreserve(&mut self, id: BlockId, pool: PoolIndex, range: RangeIndex) {
        self.pools[pool].remove(id, &self.blocks[id]);
        self.blocks.remove(id);
        // SAFETY: the only block of the range was unmapped, so no page has memory.
        unsafe { self.segments.unreserve(range) };
    }

    /// Records what happened to pages; the block may have merged with others since.
    fn record_range(&self, action: Action, id: BlockId, address: Address, size_bytes: u64, stack: StackId) {
        let Block { stream, pool, .. } = self.blocks[id];
        self.record_at(action, address, size_bytes, stream, pool, stack);
    }
}
