//! A snapshot becomes another one: repaired, made smaller, divided or joined.
//!
//! Everything here works on the model and keeps what it does not mean to
//! change: key orders, unknown keys, shared stacks. [`fix`] makes of a dump
//! on which the web viewer throws one that it opens.

#![forbid(unsafe_code)]

mod category;
mod change;
mod edits;
mod entries;
mod finals;
mod fix;
mod lifecycle;
mod mold;
mod order;
mod ranges;
mod rewind;
mod structure;

pub use change::Change;
pub use fix::{Fixed, fix};
