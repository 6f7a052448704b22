//! Limits for tests and builds: the peak, the live bytes, the reserved bytes and the fragmentation,
//! compared with given figures or with those of an older snapshot.
//!
//! The figures count events and bytes and never time, so that they are the same on a slow machine.

mod figures;
mod limits;
mod check;
mod checks;
mod broken;

pub use check::{Check, Measure};
pub use figures::Figures;
pub use limits::Limits;
