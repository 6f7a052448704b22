//! The table of stacks: numbers for lists of words, found without a lock.

mod arena;
mod hold;
mod index;
mod insert;
mod key;
mod memory;
mod record;
mod table;

pub use key::Key;
pub use memory::{HeapChunk, MIN_CHUNK_BYTES, Memory, RecordChunk};
pub use table::{Adding, NONE, Stack, Stacks};
