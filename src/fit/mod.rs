//! What size still fits: the requests of runs of some sizes predict those of another, and the allocator tells their peaks.
//!
//! [`SizedRun`]s of two sizes or more are aligned, request by request. Each aligned request has a law of the size; the run at
//! another size makes the requests of the nearest run, with the bytes of their laws, in its order. A
//! [`Replay`](crate::whatif::Replay) of these gives the peaks, and which request fails under a limit.
#![forbid(unsafe_code)]

mod alignment;
mod forecast;
mod law;
mod prediction;
mod size;
mod sized_run;
mod sizes;

pub use prediction::{Interval, PeakPart, Prediction};
pub use size::Size;
pub use sized_run::SizedRun;
pub use sizes::{Check, Largest, Sizes};
