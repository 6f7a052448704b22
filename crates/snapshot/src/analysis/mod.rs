//! Answers questions about a snapshot, with plain results.
//!
//! [`DeviceHistory`] reconstructs the allocator's state at any moment of one device's recorded history.
//! Its methods answer the questions that need a history. The functions of this module need only a snapshot.
//! Nothing here prints: the program's commands print these results.
//!
//! Results serialise with serde. Those that refer to a stack do so by its index in the snapshot, and
//! [`WithFrames`] adds the frames.
//!
//! Questions about sites sum the blocks of stacks that look the same: those whose identifying frames
//! ([`ShownFrames::identifying`]) have the same names, files and lines. Other frames and further keys of a frame make
//! no difference.
//!
//! ```
//! use memreel::{DeviceId, Reel, analysis::{By, DeviceHistory}, recorder::Recording};
//!
//! let reel = Reel::builder().history(Recording::all()).build()?;
//! let _kept = reel.alloc(1000)?;
//! drop(reel.alloc(3000)?);
//!
//! let snapshot = reel.snapshot();
//! let history = DeviceHistory::new(&snapshot, DeviceId(0));
//! let peak = history.peak();
//! assert_eq!(peak.active_bytes, 4000);
//! let by_stack = history.top(peak.moment, By::Stack);
//! assert_eq!(by_stack.iter().map(|group| group.bytes).sum::<u64>(), 4000);
//! assert_eq!(history.leaks().len(), 1);
//! # Ok::<(), memreel::Error>(())
//! ```
#![forbid(unsafe_code)]

mod frames;
mod state;
mod sites;
mod reserved;
mod growth;
mod torch;
mod owners;
mod diff;
pub mod ranks;
pub mod oom;
mod gate;

pub use crate::words::{Bytes, paths::base_name};
pub use diff::*;
pub use frames::*;
pub use gate::{Check, Figures, Limits, Measure};
pub use growth::*;
pub use owners::*;
pub use reserved::*;
pub use sites::*;
pub use state::*;
pub use torch::*;
