//! How the ticks of an event are determined: by a lock, by time, or by the event before.
#![forbid(unsafe_code)]

use super::{store::Store, tape::Tape};
use crate::ticks::{Clock, Ticks};

/// Determines the ticks of an event; a type parameter, so that the choice is made at compile time.
pub trait TickSource {
    /// Returns the ticks of the next event of a thread whose last event on the tape was at `last`.
    fn next<S: Store>(&mut self, last: Ticks, clock: &impl Clock, tape: &Tape<S>) -> Ticks;
}

/// The order of events is the order in which the caller's lock is taken.
#[derive(Debug)]
pub struct ByLock;

/// The event happened together with this thread's previous event on the tape; the counter is not read again.
/// Otherwise like [`ByLock`].
#[derive(Debug)]
pub struct WithLast;

/// The order of events is the order of their times; the caller has no lock.
#[derive(Debug)]
pub struct ByTime;

/// The event is later than the newest one under the caller's lock, one of many that share the tape, whose ticks these
/// are. Events of different locks are ordered by time.
#[derive(Debug)]
pub struct AfterNewest<'a>(pub &'a mut Ticks);

/// The event happened together with this thread's previous event. Otherwise like [`AfterNewest`].
#[derive(Debug)]
pub struct WithNewest<'a>(pub &'a mut Ticks);

impl TickSource for ByLock {
    #[inline(always)]
    fn next<S: Store>(&mut self, _: Ticks, clock: &impl Clock, tape: &Tape<S>) -> Ticks {
        tape.next_ticks(clock.now())
    }
}

impl TickSource for WithLast {
    #[inline(always)]
    fn next<S: Store>(&mut self, last: Ticks, _: &impl Clock, tape: &Tape<S>) -> Ticks {
        // The tape's last ticks alone do not suffice: a thread with another lock
        // on the same tape may have stored earlier ticks there.
        tape.next_ticks(Ticks(last.0 + 1))
    }
}

impl TickSource for AfterNewest<'_> {
    #[inline(always)]
    fn next<S: Store>(&mut self, last: Ticks, clock: &impl Clock, _: &Tape<S>) -> Ticks {
        // Waiting for earlier loads would take as long as reading the counter. The processor may read it before the
        // caller has its lock; what the lock's last owner recorded is earlier nevertheless.
        *self.0 = Ticks(clock.now().0.max(last.0 + 1).max(self.0.0 + 1));
        *self.0
    }
}

impl TickSource for WithNewest<'_> {
    #[inline(always)]
    fn next<S: Store>(&mut self, last: Ticks, _: &impl Clock, _: &Tape<S>) -> Ticks {
        *self.0 = Ticks(last.max(*self.0).0 + 1);
        *self.0
    }
}

impl TickSource for ByTime {
    #[inline(always)]
    fn next<S: Store>(&mut self, last: Ticks, clock: &impl Clock, _: &Tape<S>) -> Ticks {
        // The counter must not be read before the load that brought the address
        // here, or a free could get an earlier time than its allocation.
        Ticks(clock.now_after_loads().0.max(last.0 + 1))
    }
}
