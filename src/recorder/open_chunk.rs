//! The chunk that a thread fills on a tape: how the thread gets one, and how long it waits for the tape's lock.
#![forbid(unsafe_code)]

use std::sync::{Arc, atomic::Ordering};

#[cfg(not(loom))]
use super::keeper::Keeper;
use super::{
    chunk::Chunk,
    clock::{Clock, Ticks},
    log::ACTION_BITS,
    new_place::NewPlace,
    tape::{Tape, TapeState, order_limit, order_word},
};
#[cfg(not(loom))]
use crate::process::{fork, wiped};
use crate::process::{
    guard::Guard,
    sync::{MutexGuard, lock},
};

/// A chunk for the calling thread to write to.
pub(super) struct OpenChunk {
    /// The tape's generation.
    pub(super) generation: u64,
    pub(super) chunk: Arc<Chunk>,
    /// The ticks of its last event; 0 if it is empty.
    pub(super) last: Ticks,
    /// The keeper of the tape's file, if there is work for it.
    #[cfg(not(loom))]
    pub(super) due: Option<Arc<Keeper>>,
}

/// How long a thread waits for the lock of a tape.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Wait {
    /// Until it has the lock. The caller has a lock that a fork takes first, or the program queries the recorder.
    Always,
    /// Unless a fork has the lock for too long, whose next handlers may wait for this thread. The caller has no chunk
    /// to give back.
    UnlessStuck,
}

impl Tape {
    /// Gives the calling thread a chunk, and takes its full chunk `done` from it. Returns `None` if recording
    /// is off.
    ///
    /// `is_on` is called under the lock: switching off stores the mode before it erases the tape, so a
    /// thread that sees "on" here gets its chunk before the tape is erased, and none gets one after.
    pub(super) fn next_chunk(
        &self,
        mut done: Option<&Arc<Chunk>>,
        wait: Wait,
        clock: &Clock,
        is_on: impl Fn() -> bool,
    ) -> Option<OpenChunk> {
        let (mut state, chunk) = loop {
            let mut state = self.lock_for(wait)?;
            if !is_on() {
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
            let (place, generation) = (state.place_of_new(), self.generation());
            drop(state);
            let new = place.chunk(clock);
            let mut state = self.lock_for(wait)?;
            if generation == self.generation() && is_on() {
                let chunk = state.admitted(new, clock);
                break (state, chunk);
            }
        };
        state.open(&chunk);
        let len = chunk.len();
        let last = if len == 0 { Ticks(0) } else { Ticks(order_word(&chunk, len - 1) >> ACTION_BITS) };
        Some(OpenChunk {
            generation: self.generation(),
            chunk,
            last,
            #[cfg(not(loom))]
            due: state.in_file.as_mut().and_then(|in_file| in_file.take_due()),
        })
    }

    /// Takes back the chunk of a thread that ends; the next thread continues it. A chunk of an earlier generation gets
    /// no more events, because current events belong elsewhere. While a fork is stuck, whose next handlers may wait for
    /// the end of this thread, the chunk remains as if the thread still had it.
    pub(super) fn take_back(&self, chunk: &Arc<Chunk>, generation: u64) {
        let _guard = Guard::enter();
        if let Some(mut state) = self.lock_unless_stuck()
            && generation == self.generation()
        {
            state.close(chunk);
        }
    }

    fn lock_for(&self, wait: Wait) -> Option<MutexGuard<'_, TapeState>> {
        match wait {
            Wait::Always => Some(lock(&self.state)),
            Wait::UnlessStuck => self.lock_unless_stuck(),
        }
    }

    /// Takes the lock; `None` if a fork has it for too long, or in a child in which no fork handler ran.
    fn lock_unless_stuck(&self) -> Option<MutexGuard<'_, TapeState>> {
        #[cfg(not(loom))]
        return if wiped::is_stranger() { None } else { fork::lock_unless_stuck(&self.state) };
        #[cfg(loom)]
        return Some(lock(&self.state));
    }
}

impl TapeState {
    /// Returns the place of a new chunk: in the file, if there is one and it has room.
    fn place_of_new(&self) -> NewPlace {
        NewPlace {
            #[cfg(not(loom))]
            file: self.in_file.as_ref().and_then(|in_file| in_file.place_of_chunk()),
            #[cfg(not(loom))]
            n_dropped: self.n_dropped,
        }
    }

    /// Returns a chunk that was created for this tape; one in memory if the part in the file ends or has ended
    /// meanwhile.
    #[cfg_attr(loom, allow(unused_variables, clippy::unused_self, reason = "chunks are in memory"))]
    fn admitted(&mut self, new: Arc<Chunk>, clock: &Clock) -> Arc<Chunk> {
        #[cfg(not(loom))]
        if let Some(in_file) = &mut self.in_file {
            if !new.lines().is_in_file() {
                // The ticks of an event are read once it has a chunk, so all events elsewhere are later.
                let until = order_limit(Ticks(clock.now().0.saturating_sub(1)));
                let full = self.full.iter().map(|full| &full.chunk);
                in_file.end(until, full.chain(&self.idle).chain(&self.open));
            } else if in_file.has_ended() {
                return Arc::default();
            }
        }
        new
    }

    /// Adds a chunk to the open ones.
    fn open(&mut self, chunk: &Arc<Chunk>) {
        chunk.set_place(self.open.len());
        self.open.push(chunk.clone());
    }
}
