//! Predicts which sizes still fit: the requests of runs of some sizes predict those of another, and a replay shows
//! their peaks.
//!
//! [`SizedRun`]s of two or more sizes are aligned, request by request. Each aligned request has a law of the size; the
//! run at another size makes the requests of the nearest run, in its order, with the sizes from their laws. A
//! [`Replay`](crate::whatif::Replay) of these shows the peaks, and which request fails under a limit.
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
