//! Runs the requests of a recorded history through the allocator again, under other settings.
//!
//! A snapshot's trace contains the requests of a program ([`Requests`]). A [`Replay`] runs them on a
//! simulated device under any [`Settings`](crate::allocator::Settings) and returns what PyTorch's allocator
//! would have reserved. A [`Sweep`] tries many settings, and [`replayed`] returns a snapshot of a run.
//!
//! ```
//! use memreel::{Reel, DeviceId, recorder::Recording, whatif::{Replay, Requests}};
//!
//! let reel = Reel::builder().history(Recording::all()).build()?;
//! for _ in 0..10 {
//!     reel.alloc(3 << 20)?;
//! }
//! let requests = Requests::new(&reel.snapshot(), DeviceId(0))?;
//! let answer = Replay::new(&requests).conf("large_segment_size_mb:12").run()?;
//! assert_eq!(answer.outcome.reserved_peak_bytes, 12 << 20);
//! # Ok::<(), memreel::Error>(())
//! ```
//!
//! A run starts with the state that the recorded run had at the first entry, and [`Requests::baseline`] compares the
//! replay of the recorded setting with the recorded run, event by event: every answer is only as good as that.
//! [`ranked`] orders several settings, and [`explain`] uses them to explain why a request failed.
//! [`Requests::warnings`] lists what a trace does not show: blocks that were live before it started, and entries that
//! the ring lost.
#![forbid(unsafe_code)]

mod advice;
mod after_failure;
mod bounds;
mod answer;
mod baseline;
mod block_ends;
mod call_place;
mod calls;
mod change;
mod close_call;
mod close_calls;
mod comparison;
mod could_hold;
mod live_blocks;
mod pools;
mod held;
mod kinds;
mod prior;
mod reserved_ranges;
mod start;
mod refine;
mod replay;
mod recorded_run;
mod streams;
mod curve;
mod freed_after_use;
mod replayed;
mod resized;
mod step;
mod requests;
mod run;
mod sweep;
mod capacity;
mod explain;
mod tried;

pub use advice::ranked;
pub use answer::{PeakSpread, ReplayAnswer};
pub use baseline::Baseline;
pub use bounds::Bounds;
pub use capacity::Capacity;
pub use change::Change;
pub use close_call::CloseCall;
pub use close_calls::close_calls;
pub use could_hold::CouldHold;
pub use curve::ReservedFrom;
pub use explain::explain;
pub(crate) use explain::explain_briefly;
pub use recorded_run::RecordedRun;
pub use replay::Replay;
pub use replayed::replayed;
pub use requests::Requests;
pub use run::{FailedRequest, Outcome, Switch};
pub use sweep::{Sweep, grid};

#[doc(inline)]
pub use memreel_snapshot::analysis::oom::Fit;
