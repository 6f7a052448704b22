//! Questions about a snapshot, whoever wrote it: pure functions from snapshots to plain results.
//!
//! [`state`] reconstructs the allocator's state at any moment of a recorded
//! history; the other questions stand on it. Who prints the results is not
//! decided here; `memreel top` and its sisters are thin programs over these
//! functions.
#![forbid(unsafe_code)]

mod lives;
pub mod segments;
pub mod state;
pub mod layout;
pub mod frames;
pub mod top;
pub mod leaks;
pub mod churn;
pub mod fragmentation;
pub mod timeline;
pub mod oom;
pub mod diff;
pub mod gate;
pub mod stats;
pub mod trace;
pub mod folded;
pub mod compare;
