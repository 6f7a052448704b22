//! Questions about a snapshot, whoever wrote it: pure functions from snapshots to plain results.
//!
//! [`state`] reconstructs the allocator's state at any moment of a recorded
//! history; the other questions stand on it. Who prints the results is not
//! decided here; `memreel top` and its sisters are thin programs over these
//! functions.
#![forbid(unsafe_code)]

pub mod compare;
pub mod folded;
pub mod frames;
pub mod life;
mod request;
pub mod segments;
pub mod state;
pub mod stats;
pub mod trace;
mod walk;
