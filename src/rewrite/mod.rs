//! A snapshot becomes another one: repaired, made smaller, divided or joined.
//!
//! Everything here works on the model and keeps what it does not mean to
//! change: key orders, unknown keys, shared stacks. [`fix`] makes of a dump
//! on which the web viewer throws one that it opens; [`Slim`] leaves out what is
//! not wanted, and keeps the state right.

#![forbid(unsafe_code)]

pub(crate) mod at;
mod category;
mod change;
mod edits;
mod entries;
mod fix;
mod frames;
mod lifecycle;
mod merge;
mod mold;
mod order;
mod rewind;
mod slim;
mod slimmed;
mod small;
mod structure;
pub(crate) mod trace;
mod trace_end;
mod window;

pub use change::Change;
pub use fix::{Fixed, fix};
pub use merge::{Merged, Part, merge, split};
pub use slim::Slim;
pub use slimmed::Slimmed;
pub use window::Window;
