//! A snapshot becomes bytes: the uses of everything are counted, then one pass writes the file.

#![forbid(unsafe_code)]

mod out;
mod census;
mod template;
mod entry_template;
mod writer;
mod ahead;

pub(super) use ahead::write_ahead;
pub(super) use writer::write;
