//! Reads bytes into a snapshot: the parser's opcodes, the fast path of trace entries, and the records built from both.

#![forbid(unsafe_code)]

mod failure;
mod integer;
mod cursor;
mod input;
mod node;
mod words;
mod findings;
mod nodes;
mod memo;
mod operand_stack;
mod foreign;
mod literals;
mod parser;
mod values;
mod interner;
mod stack_lists;
mod entry_plan;
mod entry_spans;
mod entry_decoder;
mod lazy_trace;
mod assembler;
mod reader;
mod whole;
mod lazy;
#[cfg(test)]
mod samples;

pub(super) use foreign::named_text;
pub use lazy::LazySnapshot;
pub(super) use reader::Means;
pub use reader::Reading;
pub(super) use whole::{read, refusal, refused};
