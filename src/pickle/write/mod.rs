//! A snapshot becomes bytes.

#![forbid(unsafe_code)]

mod out;
mod census;
mod template;
mod row;
mod writer;
mod ahead;

pub(super) use ahead::write_ahead;
pub(super) use writer::write;
