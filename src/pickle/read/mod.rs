//! Bytes become a snapshot.

#![forbid(unsafe_code)]

mod findings;
mod foreign;
mod node;
mod memo;
mod cursor;
mod literal;
mod parser;
mod entry_spans;
mod entry_decoder;
mod frames;
mod value;
mod assembler;
mod integers;
mod whole;
mod lazy;

pub use lazy::LazySnapshot;
pub(super) use whole::read;
