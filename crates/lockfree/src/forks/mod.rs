//! The locks that a fork holds, so that the child finds every lock free.

mod held;
mod process;
mod steps;

pub use held::{AllocatorHandlers, Fork, Forks, Held, Level, Part};
pub use process::Process;
pub use steps::Pages;
