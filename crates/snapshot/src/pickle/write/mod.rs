//! Writes a snapshot as bytes: counts the uses of everything, then writes the file in one pass.

#![forbid(unsafe_code)]

mod out;
mod census;
mod template;
mod entry_template;
mod writer;
mod ahead;

pub(super) use ahead::write_ahead;
pub(super) use writer::write;
