//! A thread's open chunk on a tape.
#![forbid(unsafe_code)]

use std::sync::Arc;

use super::{
    chunk::Chunk,
    lines::Words,
    open::OpenChunk,
    source::{AfterNewest, TickSource},
    store::Store,
    tape::{Tape, TapeState},
};
use crate::{
    sync::{Mutex, MutexGuard},
    ticks::{Clock, Ticks},
};

/// What a thread writes to.
#[derive(Debug)]
pub struct Writer<S: Store> {
    /// The generation of the tape that the chunk belongs to.
    generation: u64,
    chunk: Arc<Chunk<S::Memory>>,
    /// The ticks of the last event in the chunk.
    last: Ticks,
}

impl<S: Store> Writer<S> {
    /// Begins to write in a chunk.
    pub fn new(opened: OpenChunk<S>) -> Writer<S> {
        Writer { generation: opened.generation, chunk: opened.chunk, last: opened.last }
    }

    /// Goes on in another chunk of the same tape.
    pub fn go_on(&mut self, next: OpenChunk<S>) {
        (self.generation, self.chunk) = (next.generation, next.chunk);
        self.last = self.last.max(next.last);
    }

    /// Returns the generation of the tape that the chunk belongs to.
    #[inline(always)]
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Returns whether the chunk belongs to a tape as it is now.
    #[inline(always)]
    pub fn is_of(&self, tape: &Tape<S>) -> bool {
        self.generation == tape.generation()
    }

    /// Returns the chunk.
    pub fn chunk(&self) -> &Arc<Chunk<S::Memory>> {
        &self.chunk
    }

    /// Appends the event that `words` returns for its ticks; returns `false` if the chunk is full.
    #[inline(always)]
    pub fn push(
        &mut self,
        tape: &Tape<S>,
        clock: &impl Clock,
        source: &mut impl TickSource,
        words: impl FnOnce(Ticks) -> Words,
    ) -> bool {
        let at = source.next(self.last, clock, tape);
        let has_room = self.chunk.push(words(at));
        if has_room {
            self.last = at;
        }
        has_room
    }

    /// Appends two events, one right after the other and [`AfterNewest`]; returns `false` if they do not fit.
    #[inline(always)]
    pub fn push_two(
        &mut self,
        tape: &Tape<S>,
        clock: &impl Clock,
        newest: &mut Ticks,
        words: impl FnOnce(Ticks, Ticks) -> [Words; 2],
    ) -> bool {
        let first = AfterNewest(newest).next(self.last, clock, tape);
        let last = Ticks(first.0 + 1);
        let has_room = self.chunk.push_all(words(first, last));
        if has_room {
            (self.last, *newest) = (last, last);
        }
        has_room
    }

    /// Gives the chunk back to its tape; see [`Tape::take_back`].
    pub fn give_back(
        &self,
        tape: &Tape<S>,
        take: impl for<'t> FnOnce(&'t Mutex<TapeState<S>>) -> Option<MutexGuard<'t, TapeState<S>>>,
    ) {
        tape.take_back(&self.chunk, self.generation, take);
    }
}
