//! Compares many ranks of one run: what each did, in few bytes, and which differ from the others.
//!
//! ```text
//! snapshot ─► figures (one rank, with steps and curve) ─► outliers (all ranks, against the usual one) ─► why
//! ```
//!
//! [`RankFigures`] does not grow with the history, so that a thousand ranks are compared in little memory.

mod curve;
mod figures;
mod label;
mod outliers;
mod steps;
mod usual;
mod why;

pub use curve::ClockCurve;
pub use figures::{Holder, MAX_HOLDERS, RankFigures, RankOom};
pub use label::rank_of;
pub use outliers::{MIN_RANKS, RankVerdict, outliers};
pub use steps::RankStep;
pub use why::Why;
