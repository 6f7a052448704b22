//! Segments that grow and shrink by pages (`docs/caching-allocator.md` 6).

use super::{
    block::Block,
    core::{Core, Request},
    growth::Growth,
    ids::{BlockId, PoolIndex, RangeIndex},
    size,
    supply::Range,
};
use memreel_snapshot::words::{Action, Address, BlockState, Result, StackId};

impl Growth<'_> {
    /// Creates a block for a request in an expandable segment, at the first run of adjacent free pieces, mapped or not,
    /// that is long enough. If the device refuses pages, those that were mapped before remain mapped and free.
    pub(super) fn grow_expandable(&mut self, request: &Request) -> Result<Option<BlockId>> {
        let Some(mut candidate) = self.find_room(request)? else { return Ok(None) };
        loop {
            let Block { bytes, is_mapped, next, .. } = self.blocks[candidate];
            if is_mapped && bytes >= request.rounded_bytes {
                break;
            }
            let (piece, missing_bytes) = if is_mapped {
                let next = next.expect("the run of free pieces is long enough");
                (next, request.rounded_bytes - bytes)
            } else {
                (candidate, request.rounded_bytes)
            };
            let bytes = self.blocks[piece].bytes.min(missing_bytes);
            if !self.map(piece, bytes, request)? {
                return Ok(None);
            }
            // The block of the new pages has absorbed the candidate, unless another
            // thread took that or another piece of the run meanwhile.
            candidate = if self.is_long_enough(piece, request.rounded_bytes) {
                piece
            } else {
                let Some(elsewhere) = self.find_room(request)? else { return Ok(None) };
                elsewhere
            };
        }
        let core = &mut **self;
        core.pools[request.pool].remove(candidate, &core.blocks[candidate]);
        Ok(Some(candidate))
    }

    /// Returns the first piece of a run that is long enough, in an existing range or in a new one.
    fn find_room(&mut self, request: &Request) -> Result<Option<BlockId>> {
        match self.find_run(request) {
            Some(id) => Ok(Some(id)),
            None => self.reserve(request),
        }
    }

    /// Reserves the addresses of a new expandable segment.
    fn reserve(&mut self, request: &Request) -> Result<Option<BlockId>> {
        let kind = request.pool.kind();
        let page_bytes = size::page_bytes(kind, &self.settings);
        let bytes = size::range_bytes(self.supply.device().total_bytes(), page_bytes);
        if bytes < request.rounded_bytes {
            return Ok(None);
        }
        let reserved = self.unlocked(|device| device.range_reserve(bytes, page_bytes))?;
        let Some(base) = reserved else { return Ok(None) };
        let core = &mut **self;
        let range = core.supply.add_range(Range { base, bytes, page_bytes });
        let block = Block::range(base, bytes, request.stream, request.pool, range);
        let id = core.blocks.insert(block);
        core.pools[request.pool].insert(id, &mut core.blocks[id]);
        Ok(Some(id))
    }

    /// Maps the pages of an unmapped block's first `bytes`. The block shrinks to
    /// them, merges with its free neighbours, and is free itself. Returns false
    /// when the device is full.
    fn map(&mut self, id: BlockId, bytes: u64, request: &Request) -> Result<bool> {
        let Block { address, range, .. } = self.blocks[id];
        let range = range.expect("only pieces of expandable segments are unmapped");
        let bytes = bytes.next_multiple_of(self.supply.range(range).page_bytes);
        // SAFETY: unmapped blocks begin and end at pages of their range (`map`
        // and `unmap` split nowhere else) and have no memory: what was released
        // in them is given back before a growth. The bytes do not exceed the
        // block, which consists of whole pages. Only the thread that has the turn
        // changes unmapped blocks, so this holds while the core is unlocked.
        if !self.unlocked(|device| unsafe { device.range_map(address, bytes) })? {
            return Ok(false);
        }
        self.supply.count_taken(bytes);
        self.insert_mapped(id, bytes, request.growth_stack);
        Ok(true)
    }
}

impl Core {
    /// Returns the first piece of the first run of free pieces that is long enough for a request.
    fn find_run(&self, request: &Request) -> Option<BlockId> {
        self.pools[request.pool]
            .unmapped(request.stream)
            .map(|id| self.blocks[id].prev.filter(|prev| self.is_free(*prev)).unwrap_or(id))
            .find(|start| self.is_long_enough(*start, request.rounded_bytes))
    }

    /// Returns true if the run of free pieces from `start` on has at least `bytes` bytes.
    fn is_long_enough(&self, start: BlockId, bytes: u64) -> bool {
        let run =
            std::iter::successors(Some(start), |id| self.blocks[*id].next.filter(|next| self.is_free(*next)));
        let mut sum = 0;
        run.map(|id| self.blocks[id].bytes).any(|piece| {
            sum += piece;
            sum >= bytes
        })
    }

    fn is_free(&self, id: BlockId) -> bool {
        self.blocks[id].state() == BlockState::Inactive
    }

    /// Turns the first `bytes` bytes of an unmapped block, which have memory now, into a free block.
    fn insert_mapped(&mut self, id: BlockId, bytes: u64, stack: StackId) {
        let Block { address, pool, .. } = self.blocks[id];
        self.pools[pool].remove(id, &self.blocks[id]);
        self.cut_tail(id, bytes);
        self.blocks[id].is_mapped = true;
        self.merge_neighbours(id);
        self.pools[pool].insert(id, &mut self.blocks[id]);
        self.stats.reserved_bytes.add(pool.kind(), bytes);
        self.stats.num_device_alloc += 1;
        self.record_range(Action::SegmentMap, id, address, bytes, stack);
        let block = &mut self.blocks[id];
        if block.prev.is_none() && !block.segment_stack.is_some() {
            block.segment_stack = stack;
        }
    }

    /// Shrinks a block to its first `bytes` bytes; the rest becomes a free block.
    fn cut_tail(&mut self, id: BlockId, bytes: u64) {
        if self.blocks[id].bytes > bytes {
            let tail = self.blocks.split_tail(id, bytes);
            let pool = self.blocks[tail].pool;
            self.pools[pool].insert(tail, &mut self.blocks[tail]);
        }
    }

    /// Releases the whole pages inside a free block. The parts before and after them remain mapped and free. Does
    /// nothing if no whole page is inside.
    pub(super) fn unmap(&mut self, id: BlockId, stack: StackId) {
        let Block { address, bytes, pool, range, segment_stack, .. } = self.blocks[id];
        let range = range.expect("only pieces of expandable segments are unmapped");
        let (start, unmapped_bytes) = self.supply.range(range).whole_pages(address, bytes);
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
        // SAFETY: these are whole pages inside a block that was free and mapped,
        // so they have memory and no allocated block; the block was just marked
        // unmapped, so they are released only once.
        unsafe { self.supply.unmap(start, unmapped_bytes) };
        if !self.blocks[id].is_split() {
            self.unreserve(id, pool, range);
        }
    }

    /// Releases the ranges of a pool that never got memory, because the device
    /// refused the first pages. Like PyTorch, the allocator keeps such a range
    /// until then, so that the next request can try again.
    pub(super) fn unreserve_bare(&mut self, pool: PoolIndex) {
        let bare: Vec<BlockId> =
            self.pools[pool].all_unmapped().filter(|id| !self.blocks[*id].is_split()).collect();
        for id in bare {
            let range = self.blocks[id].range.expect("only pieces of expandable segments are unmapped");
            self.unreserve(id, pool, range);
        }
    }

    /// Releases the range that a block fills and that has no memory.
    fn unreserve(&mut self, id: BlockId, pool: PoolIndex, range: RangeIndex) {
        self.pools[pool].remove(id, &self.blocks[id]);
        self.blocks.remove(id);
        // SAFETY: the only block of the range was unmapped, so all pages were released.
        unsafe { self.supply.unreserve(range) };
    }

    /// Records an event of pages; their block may be larger after a merge.
    fn record_range(&self, action: Action, id: BlockId, address: Address, size_bytes: u64, stack: StackId) {
        let Block { stream, pool, .. } = self.blocks[id];
        self.record_at(action, address, size_bytes, stream, pool, stack);
    }
}
