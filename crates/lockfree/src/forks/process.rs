//! The process that forks, as far as its locks depend on it.
#![forbid(unsafe_code)]

use super::steps::Pages;

/// A fork of the process, from its first step to its last. What it marks or blocks ends when it is dropped.
pub trait Process: Pages + Sized + 'static {
    /// Marks this thread's work as the recorder's own while the result lives.
    fn own_work() -> impl Sized;

    /// Begins a fork. What this thread allocates from here on is the recorder's own, and it receives no signal: a handler
    /// would run under all locks, and could fork. `None` if this thread is within the recorder's own work, because it may
    /// have locks itself.
    fn begin() -> Option<Self>;

    /// Waits for the `n`th time for something that another thread has; returns `false` if the fork's time is over.
    fn again(&self, n: u32) -> bool;
}
