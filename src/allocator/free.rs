//! How a block comes back: requested now, completed when no stream uses it (caching-allocator.md 4).
#![forbid(unsafe_code)]

use std::collections::VecDeque;

use super::{
    heap::Heap,
    ids::{BlockId, PoolIndex},
    stream_table::StreamKey,
};
use crate::{
    device::Mark,
    error::Result,
    event::{Action, StackId, StreamId},
    inventory::{BlockState, PoolKind},
};

impl Heap {
    /// Another stream uses the block: its memory waits for that stream.
    pub(super) fn record_stream(&mut self, id: BlockId, stream: StreamId) {
        let key = self.stream_key(stream);
        let block = &mut self.blocks[id];
        if stream == block.stream {
            return;
        }
        block.stream_uses.get_or_insert_default().entry(key, || ());
        if self.private.is_routing() {
            self.uses_while_routing.entry(id).or_default().push(key);
        }
    }

    /// The program gives the block back.
    #[inline]
    pub(super) fn free(&mut self, id: BlockId, stack: StackId) -> Result<()> {
        let block = &mut self.blocks[id];
        block.is_allocated = false;
        let (bytes, kind, has_stream_uses) = (block.bytes, block.pool.kind(), block.has_stream_uses());
        let stack = stack.of_free(block.stack);
        let event = block.event(Action::FreeRequested, self.pools[block.pool].id, stack);
        self.stats.allocation.subtract(kind, 1);
        self.stats.allocated_bytes.subtract(kind, bytes);
        // A free is recorded before the block can be handed out again.
        if has_stream_uses {
            self.track.record(event);
        } else {
            self.track.record_free(event);
        }
        if self.settings.is_oversize(bytes) {
            self.stats.oversize_allocations.change(-1);
        }
        if has_stream_uses {
            return self.put_off(id);
        }
        self.complete(id, bytes, kind, event.size_bytes);
        Ok(())
    }

    /// Other streams use the block.
    #[inline(never)]
    fn put_off(&mut self, id: BlockId) -> Result<()> {
        if self.private.is_routing() {
            self.deferred.push(id);
            return Ok(());
        }
        self.wait_for_streams(id)
    }

    /// Takes up the frees that were put off while requests were routed to a
    /// private pool. Streams that were recorded meanwhile do not count: their
    /// work belongs to what was captured (caching-allocator.md 4.5). PyTorch
    /// goes through them in the order of their pointers' hashes, which nobody
    /// can reproduce; here it is the order of the frees.
    fn take_up_deferred(&mut self, stack: StackId) -> Result<()> {
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
                    // That one is lost; the others are taken up the next time.
                    self.deferred = ids.collect();
                    return waits;
                }
            }
        }
        Ok(())
    }

    /// Marks every other stream that uses the block. Until all marks are
    /// passed the block is in use; if the device fails, for ever: better lost
    /// than handed out too early.
    #[inline(never)]
    fn wait_for_streams(&mut self, id: BlockId) -> Result<()> {
        let streams: Vec<StreamKey> =
            self.blocks[id].stream_uses.iter().flat_map(|uses| uses.keys()).collect();
        for key in streams {
            let mark = self.segments.mark(key.stream)?;
            self.blocks[id].n_marks += 1;
            self.waiting.entry(key, Default::default).push_back((mark, id));
        }
        self.blocks[id].stream_uses = None;
        Ok(())
    }

    /// Completes the frees whose streams have passed their marks. Each stream
    /// is asked from its oldest mark on, up to the first that is not passed.
    #[inline]
    pub(super) fn complete_passed(&mut self, stack: StackId) -> Result<()> {
        let nothing_waits = self.deferred.is_empty() && self.waiting.is_empty();
        if nothing_waits { Ok(()) } else { self.complete_some(stack) }
    }

    #[inline(never)]
    fn complete_some(&mut self, stack: StackId) -> Result<()> {
        self.take_up_deferred(stack)?;
        self.complete_while(stack, |heap, mark| heap.segments.device().is_passed(mark))
    }

    /// Waits for every stream that has marks, and completes all frees.
    pub(super) fn complete_all(&mut self, stack: StackId) -> Result<()> {
        self.stats.num_sync_all_streams += 1;
        self.take_up_deferred(stack)?;
        self.complete_while(stack, |heap, mark| heap.segments.device().wait(mark).map(|()| true))
    }

    /// As [`Heap::complete_all`], for the marks of some pools' blocks alone.
    pub(super) fn complete_pools(&mut self, pools: [PoolIndex; 2], stack: StackId) -> Result<()> {
        self.stats.num_sync_all_streams += 1;
        if !self.private.is_routing() {
            self.take_up_deferred(stack)?;
        }
        let streams: Vec<StreamKey> = self.waiting.keys().collect();
        for key in streams {
            // Each leaves the queue when it is passed: if the device fails, the rest still waits.
            while let Some((place, mark, id)) = self.first_of(key, pools) {
                self.segments.device().wait(mark)?;
                self.waiting.get_mut(key).and_then(|marks| marks.remove(place));
                self.pass(id, stack);
                self.segments.device().forget(mark);
            }
            if self.waiting.get_mut(key).is_some_and(|marks| marks.is_empty()) {
                self.waiting.remove(key);
            }
        }
        Ok(())
    }

    /// The oldest mark on a stream for a block of these pools, and its place in the queue.
    fn first_of(&mut self, key: StreamKey, pools: [PoolIndex; 2]) -> Option<(usize, Mark, BlockId)> {
        let marks = self.waiting.get_mut(key)?;
        let place = marks.iter().position(|(_, id)| pools.contains(&self.blocks[*id].pool))?;
        let (mark, id) = marks[place];
        Some((place, mark, id))
    }

    fn complete_while(
        &mut self,
        stack: StackId,
        is_passed: impl Fn(&Heap, Mark) -> Result<bool>,
    ) -> Result<()> {
        let mut from = 0;
        while let Some((place, key)) = self.waiting.at_or_after(from) {
            from = place + 1;
            while let Some((mark, id)) = self.waiting.get_mut(key).and_then(|marks| marks.front().copied()) {
                if !is_passed(self, mark)? {
                    break;
                }
                self.waiting.get_mut(key).and_then(VecDeque::pop_front);
                self.pass(id, stack);
                self.segments.device().forget(mark);
            }
            if self.waiting.get_mut(key).is_some_and(|marks| marks.is_empty()) {
                self.waiting.remove(key);
                // What followed has moved up into this slot.
                from = place;
            }
        }
        Ok(())
    }

    /// One mark of a block is passed; the last one completes its free.
    fn pass(&mut self, id: BlockId, stack: StackId) {
        let block = &mut self.blocks[id];
        block.n_marks -= 1;
        // A stream that could not be marked keeps the block for good.
        if block.n_marks == 0 && !block.has_stream_uses() {
            self.complete_late(id, stack);
        }
    }

    /// Completes a free some time after it was requested.
    #[inline(never)]
    fn complete_late(&mut self, id: BlockId, stack: StackId) {
        let block = &self.blocks[id];
        let (bytes, kind, stack) = (block.bytes, block.pool.kind(), stack.of_free(block.stack));
        let event = block.event(Action::FreeCompleted, self.pools[block.pool].id, stack);
        self.track.record(event);
        self.complete(id, bytes, kind, event.size_bytes);
    }

    /// Nobody uses the block any more, which is recorded: it merges with free
    /// neighbours and can be handed out again. The freed block is the one that lives on.
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

    /// Merges a block, which is in no pool, with the neighbours that are free
    /// and mapped as it is. Says how many there were, and how large.
    #[inline(always)]
    pub(super) fn merge_neighbours(&mut self, id: BlockId) -> (u64, u64) {
        let (prev, next) = (self.blocks[id].prev, self.blocks[id].next);
        let left_bytes = prev.map_or(0, |prev| self.merge(id, prev));
        let right_bytes = next.map_or(0, |next| self.merge(id, next));
        (u64::from(left_bytes > 0) + u64::from(right_bytes > 0), left_bytes + right_bytes)
    }

    /// How many bytes a neighbour added: none when it is in use.
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
