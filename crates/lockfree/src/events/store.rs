//! Where the chunks of a tape are, and what becomes of them.
#![forbid(unsafe_code)]

use std::{fmt::Debug, sync::Arc};

use super::{
    chunk::{Chunk, FullChunk},
    lines::Memory,
};

/// Where the chunks of a tape are: in memory alone, or in a file that keeps those that the ring drops. Its methods are called
/// under the tape's lock.
pub trait Store: Debug + Default {
    /// The memory of a chunk.
    type Memory: Memory;
    /// The place of a new chunk, which is created without the lock.
    type Place;
    /// Work that is due.
    type Due;

    /// Returns the store of the tape once its events up to the order word `until` are erased.
    fn erased(&self, until: u64) -> Self;

    /// Notes that a chunk is full.
    fn fill(&mut self, chunk: &Arc<Chunk<Self::Memory>>);

    /// Takes a chunk that the ring of this capacity dropped, as all events up to the order word `horizon`; returns the chunk if
    /// it is not kept.
    fn keep(
        &mut self,
        dropped: FullChunk<Self::Memory>,
        capacity: usize,
        horizon: u64,
    ) -> Option<FullChunk<Self::Memory>>;

    /// Returns the place of a new chunk; the ring has dropped `n_dropped` events.
    fn place(&self, n_dropped: u64) -> Self::Place;

    /// Returns a chunk that was created for this tape, or another one if it does not belong here any more. `others` are the
    /// tape's chunks, and all events elsewhere have order words above `until`.
    fn admit<'c>(
        &mut self,
        new: Arc<Chunk<Self::Memory>>,
        others: impl Iterator<Item = &'c Arc<Chunk<Self::Memory>>>,
        until: impl FnOnce() -> u64,
    ) -> Arc<Chunk<Self::Memory>>
    where
        Self::Memory: 'c;

    /// Returns the work that is due, once.
    fn take_due(&mut self) -> Self::Due;
}
