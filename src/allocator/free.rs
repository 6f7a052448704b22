//! Frees: requested by the program, completed when no stream uses the block (`docs/caching-allocator.md` 4).
#![forbid(unsafe_code)]

use std::collections::VecDeque;

use super::{core::Core, ids::BlockId, stream_table::StreamKey};
use memreel_snapshot::words::{Action, BlockState, PoolKind, Result, StackId, StreamId};

impl Core {
    /// Records that another stream uses the block; its free will wait for that stream, unless it is recorded while
    /// requests are routed to a private pool (`docs/caching-allocator.md` 4.5).
    pub(super) fn record_stream(&mut self, id: BlockId, stream: StreamId) {
        if stream != self.blocks[id].stream && self.private.is_routing() {
            let key = self.stream_key(stream);
            self.uses_while_routing.entry(id).or_default().push(key);
        }
        self.record_use(id, stream);
    }

    /// Records that another stream, which is not being captured, uses the block. Its free waits for that stream in any
    /// case. PyTorch leaves it to callers to ensure that uses recorded during a capture belong to it.
    pub(super) fn record_use(&mut self, id: BlockId, stream: StreamId) {
        let key = self.stream_key(stream);
        let block = &mut self.blocks[id];
        if stream != block.stream {
            block.stream_uses.get_or_insert_default().entry(key, || ());
        }
    }

    /// Returns the id of the pool that a block came from.
    #[cfg(feature = "cuda")]
    pub(super) fn pool_of(&self, id: BlockId) -> memreel_snapshot::words::PoolId {
        self.pools[self.blocks[id].pool].id
    }

    /// Frees a block: immediately, or once no other stream uses it.
    // Without `always`, the frees of raw blocks would keep the compiler from inlining it where handles are dropped.
    #[inline(always)]
    pub(super) fn free(&mut self, id: BlockId, stack: StackId) -> Result<()> {
        let block = &mut self.blocks[id];
        block.is_allocated = false;
        let (bytes, kind, has_stream_uses) = (block.bytes, block.pool.kind(), block.has_stream_uses());
        let stack = stack.of_free(block.stack);
        let event = block.event(Action::FreeRequested, self.pools[block.pool].id, stack);
        self.stats.allocation.subtract(kind, 1);
        self.stats.allocated_bytes.subtract(kind, bytes);
        // A free is recorded before the block can be allocated again.
        if has_stream_uses {
            self.track.record(event);
        } else {
            self.track.record_free(event);
        }
        if self.settings.is_oversize(bytes) {
            self.stats.oversize_allocations.change(-1);
        }
        if has_stream_uses {
            return self.free_later(id);
        }
        self.complete(id, bytes, kind, event.size_bytes);
        Ok(())
    }

    /// Frees a block that other streams use.
    #[inline(never)]
    fn free_later(&mut self, id: BlockId) -> Result<()> {
        if self.private.is_routing() {
            self.deferred.push(id);
            return Ok(());
        }
        self.wait_for_streams(id)
    }

    /// Processes the frees that were deferred while requests were routed to a
    /// private pool. Streams that were recorded in that time are dropped: their
    /// work belongs to the capture (`docs/caching-allocator.md` 4.5). PyTorch
    /// iterates in the order of its pointers' hashes, which cannot be
    /// reproduced; memreel uses the order of the frees.
    pub(super) fn process_deferred(&mut self, stack: StackId) -> Result<()> {
        let mut ids = std::mem::take(&mut self.deferred).into_iter();
        while let Some(id) = ids.next() {
            let meanwhile = self.uses_while_routing.remove(&id).unwrap_or_default();
            if let Some(uses) = &mut self.blocks[id].stream_uses {
                for key in meanwhile {
                    uses.remove(key);
                }
            }
            if !self.blocks[id].has_stream_uses() {
                self.complete_late(id, stack);
            } else {
                let waits = self.wait_for_streams(id);
                if waits.is_err() {
                    // That block is lost; the others are processed the next time.
                    self.deferred = ids.collect();
                    return waits;
                }
            }
        }
        Ok(())
    }

    /// Marks every other stream that uses the block. The block stays in use until all marks are passed. If the device
    /// fails, it remains in use for ever, because reuse might be too early.
    #[inline(never)]
    fn wait_for_streams(&mut self, id: BlockId) -> Result<()> {
        let streams: Vec<StreamKey> =
            self.blocks[id].stream_uses.iter().flat_map(|uses| uses.keys()).collect();
        for key in streams {
            let mark = self.supply.mark(key.stream)?;
            self.blocks[id].n_marks += 1;
            self.waiting.entry(key, Default::default).push_back((mark, id));
        }
        self.blocks[id].stream_uses = None;
        Ok(())
    }

    /// Completes the frees whose streams have passed their marks. The marks of
    /// a stream are queried from the oldest to the first that is not passed.
    #[inline]
    pub(super) fn complete_passed(&mut self, stack: StackId) -> Result<()> {
        let nothing_waits = self.deferred.is_empty() && self.waiting.is_empty();
        if nothing_waits || self.completes_by_stream { Ok(()) } else { self.complete_some(stack) }
    }

    #[inline(never)]
    fn complete_some(&mut self, stack: StackId) -> Result<()> {
        self.process_deferred(stack)?;
        let mut from = 0;
        while let Some((place, key)) = self.waiting.at_or_after(from) {
            // The key after one that is removed may have moved up into its slot.
            from = if self.complete_of(key, stack)? { place } else { place + 1 };
        }
        Ok(())
    }

    /// Completes the frees that wait for one stream and whose marks it has passed.
    pub(super) fn complete_stream(&mut self, stream: StreamId, stack: StackId) -> Result<()> {
        self.process_deferred(stack)?;
        let key = self.stream_key(stream);
        self.complete_of(key, stack).map(|_| ())
    }

    /// Completes the passed frees of one key. Returns whether nothing waits for the stream any longer, so that its key
    /// was removed.
    fn complete_of(&mut self, key: StreamKey, stack: StackId) -> Result<bool> {
        while let Some((mark, id)) = self.waiting.get_mut(key).and_then(|marks| marks.front().copied()) {
            if !self.supply.device().is_passed(mark)? {
                return Ok(false);
            }
            self.waiting.get_mut(key).and_then(VecDeque::pop_front);
            self.pass(id, stack);
            if self.awaited != Some(mark) {
                self.supply.forget(mark);
            }
        }
        let is_empty = self.waiting.get_mut(key).is_some_and(|marks| marks.is_empty());
        if is_empty {
            self.waiting.remove(key);
        }
        Ok(is_empty)
    }

    /// Counts a passed mark of a block; the last one completes its free.
    pub(super) fn pass(&mut self, id: BlockId, stack: StackId) {
        let block = &mut self.blocks[id];
        block.n_marks -= 1;
        // If a stream could not be marked, the block is never completed.
        if block.n_marks == 0 && !block.has_stream_uses() {
            self.complete_late(id, stack);
        }
    }

    /// Completes a free that was pending, and records that.
    #[inline(never)]
    fn complete_late(&mut self, id: BlockId, stack: StackId) {
        let block = &self.blocks[id];
        let (bytes, kind, stack) = (block.bytes, block.pool.kind(), stack.of_free(block.stack));
        let event = block.event(Action::FreeCompleted, self.pools[block.pool].id, stack);
        self.track.record(event);
        self.complete(id, bytes, kind, event.size_bytes);
    }

    /// Completes a free whose event is recorded: the block merges with its free neighbours, survives the merge, and can
    /// be allocated again.
    #[inline(always)]
    fn complete(&mut self, id: BlockId, bytes: u64, kind: PoolKind, requested_bytes: u64) {
        self.stats.active.subtract(kind, 1);
        self.stats.active_bytes.subtract(kind, bytes);
        self.stats.requested_bytes.subtract(kind, requested_bytes);
        if !self.uses_while_routing.is_empty() {
            self.uses_while_routing.remove(&id);
        }
        let (n_absorbed, absorbed_bytes) = self.merge_neighbours(id);
        let block = &mut self.blocks[id];
        block.stack = StackId::NONE;
        self.pools[block.pool].insert(id, block);
        if block.range.is_none() {
            let (n, left_bytes) = if block.is_split() { (1, block.bytes) } else { (0, 0) };
            self.stats.inactive_split.change(kind, n, n_absorbed);
            self.stats.inactive_split_bytes.change(kind, left_bytes, absorbed_bytes);
        }
    }

    /// Merges a block, which is not in a pool, with its free neighbours that are
    /// mapped or unmapped like it. Returns their number and their bytes.
    #[inline(always)]
    pub(super) fn merge_neighbours(&mut self, id: BlockId) -> (u64, u64) {
        let (prev, next) = (self.blocks[id].prev, self.blocks[id].next);
        let left_bytes = prev.map_or(0, |prev| self.merge(id, prev));
        let right_bytes = next.map_or(0, |next| self.merge(id, next));
        (u64::from(left_bytes > 0) + u64::from(right_bytes > 0), left_bytes + right_bytes)
    }

    /// Merges one neighbour unless it is in use, and returns the bytes it added.
    #[inline]
    fn merge(&mut self, id: BlockId, neighbour: BlockId) -> u64 {
        if self.blocks[neighbour].is_allocated { 0 } else { self.merge_unallocated(id, neighbour) }
    }

    #[inline(never)]
    fn merge_unallocated(&mut self, id: BlockId, neighbour: BlockId) -> u64 {
        let other = &self.blocks[neighbour];
        if other.state() != BlockState::Inactive || other.is_mapped != self.blocks[id].is_mapped {
            return 0;
        }
        self.pools[other.pool].remove(neighbour, other);
        self.blocks.absorb(id, neighbour)
    }
}
