//! The chunk that a thread fills on a tape: how the thread gets one, and how it gives it back.
#![forbid(unsafe_code)]

use std::sync::{Arc, atomic::Ordering};

use super::{
    chunk::Chunk,
    order::{order_limit, order_word, ticks_of},
    store::Store,
    tape::{Tape, TapeState},
};
use crate::{
    sync::{Mutex, MutexGuard},
    ticks::Ticks,
};

/// A chunk for the calling thread to write to.
#[derive(Debug)]
pub struct OpenChunk<S: Store> {
    /// The tape's generation.
    pub generation: u64,
    /// The chunk.
    pub chunk: Arc<Chunk<S::Memory>>,
    /// The ticks of its last event; 0 if it is empty.
    pub last: Ticks,
    /// The work of the store that is due.
    pub due: S::Due,
}

/// A thread that opens a chunk.
pub trait Opener<S: Store> {
    /// Takes the lock of a tape; `None` if the thread gives up.
    fn lock<'t>(&self, state: &'t Mutex<TapeState<S>>) -> Option<MutexGuard<'t, TapeState<S>>>;

    /// Returns whether recording is on.
    fn is_on(&self) -> bool;

    /// Returns an empty chunk at a place of the store, or one in memory.
    fn chunk(&self, place: S::Place) -> Arc<Chunk<S::Memory>>;

    /// Returns the current time.
    fn now(&self) -> Ticks;
}

impl<S: Store> Tape<S> {
    /// Gives the calling thread a chunk, and takes its full chunk `done` from it. Returns `None` if recording
    /// is off.
    ///
    /// [`Opener::is_on`] is called under the lock: switching off stores the mode before it erases the tape, so a
    /// thread that sees "on" here gets its chunk before the tape is erased, and none gets one after.
    pub fn next_chunk(
        &self,
        mut done: Option<&Arc<Chunk<S::Memory>>>,
        opener: &impl Opener<S>,
    ) -> Option<OpenChunk<S>> {
        let (mut state, chunk) = loop {
            let mut state = opener.lock(self.mutex())?;
            if !opener.is_on() {
                return None;
            }
            if let Some(done) = done.take() {
                state.close(done);
            }
            let spare = state.drop_oldest();
            // Relaxed: a count, nothing else has to agree with it.
            state.n_dropped += self.n_lost.swap(0, Ordering::Relaxed);
            if let Some(chunk) = state.idle.pop().or(spare) {
                break (state, chunk);
            }
            // Without the lock, because thousands of threads that start at once may wait for it, and the file system
            // and the allocator may take long.
            let (place, generation) = (state.store.place(state.n_dropped), self.generation());
            drop(state);
            let new = opener.chunk(place);
            let mut state = opener.lock(self.mutex())?;
            if generation == self.generation() && opener.is_on() {
                let (store, others) = state.parts();
                // The ticks of an event are read once it has a chunk, so all events elsewhere are later.
                let until = || order_limit(Ticks(opener.now().0.saturating_sub(1)));
                let chunk = store.admit(new, others, until);
                break (state, chunk);
            }
        };
        state.open(&chunk);
        let len = chunk.len();
        let last = if len == 0 { Ticks(0) } else { ticks_of(order_word(&chunk, len - 1)) };
        let due = state.store.take_due();
        Some(OpenChunk { generation: self.generation(), chunk, last, due })
    }

    /// Takes back the chunk of a thread that ends; the next thread continues it. A chunk of an earlier generation gets
    /// no more events, because current events belong elsewhere. If `take` does not take the lock, the chunk remains as if the
    /// thread still had it.
    pub fn take_back(
        &self,
        chunk: &Arc<Chunk<S::Memory>>,
        generation: u64,
        take: impl for<'t> FnOnce(&'t Mutex<TapeState<S>>) -> Option<MutexGuard<'t, TapeState<S>>>,
    ) {
        if let Some(mut state) = take(self.mutex())
            && generation == self.generation()
        {
            state.close(chunk);
        }
    }
}
