//! Waits for streams, so that all frees complete (`docs/caching-allocator.md` 4.4, 5.1).
#![forbid(unsafe_code)]

use super::{
    block::Block,
    core::Core,
    growth::Growth,
    ids::{BlockId, PoolIndex},
    stream_table::StreamKey,
};
use crate::device::Mark;
use memreel_snapshot::words::{Result, StackId};

impl Growth<'_> {
    /// Waits for every stream that has marks, and completes all frees.
    pub(super) fn complete_all(&mut self, stack: StackId) -> Result<()> {
        self.stats.num_sync_all_streams += 1;
        self.process_deferred(stack)?;
        self.wait_for_marks(stack, |_| true)
    }

    /// Waits for the marks of two pools' blocks only, and completes their frees.
    pub(super) fn complete_pools(&mut self, pools: [PoolIndex; 2], stack: StackId) -> Result<()> {
        self.stats.num_sync_all_streams += 1;
        if !self.private.is_routing() {
            self.process_deferred(stack)?;
        }
        self.wait_for_marks(stack, |block| pools.contains(&block.pool))
    }

    /// Waits for the marks of the chosen blocks, stream by stream, and completes their frees.
    fn wait_for_marks(&mut self, stack: StackId, concerns: impl Fn(&Block) -> bool) -> Result<()> {
        let streams: Vec<StreamKey> = self.waiting.keys().collect();
        for key in streams {
            // During a wait other threads may add marks, so that the queue might never become empty.
            let n_marks = self.waiting.get_mut(key).map_or(0, |marks| marks.len());
            for _ in 0..n_marks {
                let Some((mark, id)) = self.first_mark(key, &concerns) else { break };
                self.wait_for_mark(key, mark, id, stack)?;
            }
            if self.waiting.get_mut(key).is_some_and(|marks| marks.is_empty()) {
                self.waiting.remove(key);
            }
        }
        Ok(())
    }

    /// Waits for one mark of a block. The mark leaves its queue after it is passed, so it still waits there after a
    /// failure.
    fn wait_for_mark(&mut self, key: StreamKey, mark: Mark, id: BlockId, stack: StackId) -> Result<()> {
        let waits = self.wait(mark);
        let marks = self.waiting.get_mut(key);
        let Some(place) = marks.and_then(|marks| marks.iter().position(|entry| *entry == (mark, id))) else {
            // Another thread found the mark passed meanwhile, and left it to this thread to forget.
            self.supply.forget(mark);
            return waits;
        };
        waits?;
        self.waiting.get_mut(key).and_then(|marks| marks.remove(place));
        self.pass(id, stack);
        self.supply.forget(mark);
        Ok(())
    }
}

impl Core {
    /// Returns the oldest mark on a stream that concerns the caller, with its block.
    fn first_mark(&mut self, key: StreamKey, concerns: impl Fn(&Block) -> bool) -> Option<(Mark, BlockId)> {
        let marks = self.waiting.get_mut(key)?;
        marks.iter().copied().find(|(_, id)| concerns(&self.blocks[*id]))
    }
}
