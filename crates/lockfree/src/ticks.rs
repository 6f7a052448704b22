//! Times of events, as a clock of the program gives them.
#![forbid(unsafe_code)]

/// A time, in ticks since the recorder was created.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Ticks(pub u64);

/// A clock that all threads read.
pub trait Clock {
    /// Returns the current time.
    fn now(&self) -> Ticks;

    /// Returns the current time, read after all earlier loads have completed: a thread that sees a value stored after
    /// another thread read its clock reads a later time.
    fn now_after_loads(&self) -> Ticks;
}
