//! A chunk as a reader of a tape's file sees it, for the models of `dev/loom`, which have no files.
#![forbid(unsafe_code)]

use std::sync::atomic::Ordering;

use super::chunk::{Chunk, N_WORDS};

/// A chunk whose length the reader does not know.
#[derive(Debug, Default)]
pub struct ChunkInFile(Chunk);

impl ChunkInFile {
    /// Appends an event: its second word is its order word. Returns `false` if the chunk is full.
    #[must_use]
    pub fn push(&self, words: [u64; N_WORDS]) -> bool {
        self.0.push(words)
    }

    /// Returns the complete events, read like `Memory::read_at` and `slot` in `tape/` do: words in order with acquire,
    /// first to count the complete events, then to copy them.
    #[must_use]
    pub fn whole_events(&self) -> Vec<[u64; N_WORDS]> {
        let places = || self.0.lines().iter().flat_map(|line| &line.0);
        let n_whole = places().take_while(|place| place[1].load(Ordering::Acquire) != 0).count();
        let read = places().take(n_whole);
        read.map(|place| std::array::from_fn(|word| place[word].load(Ordering::Acquire))).collect()
    }
}
