//! Questions about a snapshot, whoever wrote it: pure functions from snapshots to plain results.
//!
//! Who prints the results is not decided here; `memreel top` and its sisters
//! are thin programs over these functions.
#![forbid(unsafe_code)]

mod request;
pub mod stats;
