//! How a block comes back: requested now, completed when no stream uses it (caching-allocator.md 4).
#![forbid(unsafe_code)]

use super::{block::BlockId, heap::Heap, stats::signed, stream_table::StreamKey};
use crate::{
    error::Result,
    event::{Action, StackId, StreamId},
    inventory::BlockState,
};

impl Heap {
    /// Another stream uses the block: its memory waits for that stream.
    pub(super) fn record_stream(&mut self, id: BlockId, stream: StreamId) {
        let key = self.stream_key(stream);
        let block = &mut self.blocks[id];
        if stream != block.stream {
            block.stream_uses.entry(key, || ());
        }
    }

    /// The program gives the block back.
    pub(super) fn free(&mut self, id: BlockId, stack: StackId) -> Result<()> {
        let block = &mut self.blocks[id];
        block.is_allocated = false;
        let (bytes, requested_bytes, pool) = (block.bytes, block.requested_bytes, block.pool);
        let stack = stack.or(block.stack);
        let kind = self.pools[pool.0].kind;
        self.stats.allocation.change(kind, -1);
        self.stats.allocated_bytes.change(kind, -signed(bytes));
        self.record(Action::FreeRequested, id, requested_bytes, stack);
        if self.blocks[id].stream_uses.is_empty() {
            self.complete(id, stack);
            Ok(())
        } else {
            self.wait_for_streams(id)
        }
    }

    /// Marks every other stream that uses the block. Until all marks are
    /// passed the block is in use; if the device fails, for ever: better lost
    /// than handed out too early.
    fn wait_for_streams(&mut self, id: BlockId) -> Result<()> {
        let streams: Vec<StreamKey> = self.blocks[id].stream_uses.keys().collect();
        for key in streams {
            let mark = self.segments.mark(key.stream)?;
            self.blocks[id].n_marks += 1;
            self.waiting.entry(key, Default::default).push_back((mark, id));
        }
        self.blocks[id].stream_uses = Default::default();
        Ok(())
    }

    /// Completes the frees whose streams have passed their marks. Each stream
    /// is asked from its oldest mark on, up to the first that is not passed.
    pub(super) fn complete_passed(&mut self, stack: StackId) -> Result<()> {
        self.complete_while(stack, |heap, mark| heap.segments.device().is_passed(mark))
    }

    /// Waits for every stream that has marks, and completes all frees.
    pub(super) fn complete_all(&mut self, stack: StackId) -> Result<()> {
        self.complete_while(stack, |heap, mark| heap.segments.device().wait(mark).map(|()| true))
    }

    fn complete_while(
        &mut self,
        stack: StackId,
        is_passed: impl Fn(&Heap, crate::device::Mark) -> Result<bool>,
    ) -> Result<()> {
        let mut from = 0;
        while let Some((place, key)) = self.waiting.at_or_after(from) {
            from = place + 1;
            while let Some((mark, id)) = self.waiting.get_mut(key).and_then(|marks| marks.front().copied()) {
                if !is_passed(self, mark)? {
                    break;
                }
                self.pass(key, id, stack);
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
    fn pass(&mut self, key: StreamKey, id: BlockId, stack: StackId) {
        self.waiting.get_mut(key).and_then(std::collections::VecDeque::pop_front);
        let block = &mut self.blocks[id];
        block.n_marks -= 1;
        // A stream that could not be marked keeps the block for good.
        if block.n_marks == 0 && block.stream_uses.is_empty() {
            let stack = stack.or(block.stack);
            self.complete(id, stack);
        }
    }

    /// Nobody uses the block any more: it merges with free neighbours and can
    /// be handed out again. The freed block is the one that lives on.
    fn complete(&mut self, id: BlockId, stack: StackId) {
        let block = &mut self.blocks[id];
        block.stack = StackId::NONE;
        let (bytes, requested_bytes, pool) = (block.bytes, block.requested_bytes, block.pool);
        let neighbours = [block.prev, block.next];
        self.record(Action::FreeCompleted, id, requested_bytes, stack);

        let (mut blocks_by, mut bytes_by) = (0, 0);
        for neighbour in neighbours.into_iter().flatten() {
            if self.blocks[neighbour].state() == BlockState::Inactive {
                self.pools[pool.0].remove(neighbour, &self.blocks[neighbour]);
                let absorbed = self.blocks.absorb(id, neighbour);
                blocks_by -= 1;
                bytes_by -= signed(absorbed.bytes);
            }
        }
        let block = &self.blocks[id];
        if block.is_split() {
            blocks_by += 1;
            bytes_by += signed(block.bytes);
        }
        self.pools[pool.0].insert(id, block);

        let kind = self.pools[pool.0].kind;
        self.stats.inactive_split.change(kind, blocks_by);
        self.stats.inactive_split_bytes.change(kind, bytes_by);
        self.stats.active.change(kind, -1);
        self.stats.active_bytes.change(kind, -signed(bytes));
        self.stats.requested_bytes.change(kind, -signed(requested_bytes));
    }
}
