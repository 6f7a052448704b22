//! How a thread opens a chunk: where it is created, and how long the thread waits for the tape's lock.
#![forbid(unsafe_code)]

use std::sync::{Arc, Mutex, MutexGuard};

use super::{clock::Ticks, lines::Chunk, new_place::NewPlace, shared::Shared, tape::InTape};
use crate::process::{fork, wiped};
use memreel_lockfree::{
    events::{Opener, TapeState},
    sync::lock,
};

/// How long a thread waits for the lock of a tape.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Wait {
    /// Until it has the lock. The caller has a lock that a fork takes first, or the program queries the recorder.
    Always,
    /// Unless a fork has the lock for too long, whose next handlers may wait for this thread. The caller has no chunk
    /// to give back.
    UnlessStuck,
}

/// A thread that opens a chunk for a recorder.
pub(super) struct Opening<'a> {
    pub(super) shared: &'a Shared,
    pub(super) wait: Wait,
}

impl Opener<InTape> for Opening<'_> {
    fn lock<'t>(&self, state: &'t Mutex<TapeState<InTape>>) -> Option<MutexGuard<'t, TapeState<InTape>>> {
        match self.wait {
            Wait::Always => Some(lock(state)),
            Wait::UnlessStuck => lock_unless_stuck(state),
        }
    }

    fn is_on(&self) -> bool {
        !self.shared.mode().is_off()
    }

    fn chunk(&self, place: NewPlace) -> Arc<Chunk> {
        place.chunk(&self.shared.clock)
    }

    fn now(&self) -> Ticks {
        self.shared.clock.now()
    }
}

/// Takes a lock; `None` if a fork has it for too long, or in a child in which no fork handler ran.
pub(super) fn lock_unless_stuck<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    if wiped::is_stranger() { None } else { fork::lock_unless_stuck(mutex) }
}
