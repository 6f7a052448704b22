//! A fixed-size run of one thread's events, written without a lock and readable while it is written.
#![forbid(unsafe_code)]

use std::sync::atomic::Ordering;

use crate::sync::{AtomicU64, AtomicUsize};

/// Words in an event: address; ticks and action; stack and context; size.
pub(super) const N_WORDS: usize = 4;
const N_IN_LINE: usize = 4;
/// A chunk has 32 KiB: small enough that a thread with few events wastes little memory, large enough that
/// the tape's lists of chunks are locked only once in about a thousand events.
const N_LINES: usize = if cfg!(loom) { 1 } else { 256 };

type Slot = [AtomicU64; N_WORDS];

/// Four events in two cache lines, because processors fetch lines in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Line([Slot; N_IN_LINE]);

/// Room for [`Chunk::N_ENTRIES`] events of 32 bytes.
///
/// Exactly one thread writes. It stores the words of an event with relaxed stores, then the new length with
/// a release store. A reader loads the length with acquire and reads only events below it, so each event it
/// reads is complete. Words below the length never change while the chunk is shared: a chunk is cleared
/// for reuse through `&mut`, which proves that no reader has it.
#[derive(Debug)]
#[repr(align(128))]
pub(super) struct Chunk {
    len: AtomicUsize,
    lines: Box<[Line; N_LINES]>,
}

impl Default for Chunk {
    fn default() -> Chunk {
        // Built on the heap, because the calling thread's stack may have no room for a chunk.
        let lines: Box<[Line]> = std::iter::repeat_with(Line::default).take(N_LINES).collect();
        let Ok(lines) = lines.try_into() else { unreachable!("as many as were taken") };
        Chunk { len: AtomicUsize::new(0), lines }
    }
}

impl Chunk {
    pub(super) const N_ENTRIES: usize = N_LINES * N_IN_LINE;

    /// Appends an event; returns `false` if the chunk is full. Only the thread that owns the chunk may call it.
    #[inline(always)]
    pub(super) fn push(&self, words: [u64; N_WORDS]) -> bool {
        let index = self.len.load(Ordering::Relaxed);
        let Some(line) = self.lines.get(index / N_IN_LINE) else { return false };
        let slot = &line.0[index % N_IN_LINE];
        for (place, word) in slot.iter().zip(words) {
            place.store(word, Ordering::Relaxed);
        }
        self.len.store(index + 1, Ordering::Release);
        true
    }

    /// Returns the number of complete events.
    pub(super) fn len(&self) -> usize {
        self.len.load(Ordering::Acquire)
    }

    /// Returns the words of event `index`, which must be below a length returned by [`Chunk::len`].
    pub(super) fn read(&self, index: usize) -> [u64; N_WORDS] {
        let slot = &self.lines[index / N_IN_LINE].0[index % N_IN_LINE];
        std::array::from_fn(|word| slot[word].load(Ordering::Relaxed))
    }

    /// Removes all events, so that the chunk can be reused.
    pub(super) fn clear(&mut self) {
        self.len.store(0, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chunk_holds_n_entries_of_32_bytes_and_refuses_one_more() {
        let chunk = Chunk::default();
        for index in 0..Chunk::N_ENTRIES {
            assert!(chunk.push([index as u64; N_WORDS]));
            assert_eq!((chunk.len(), chunk.read(index)), (index + 1, [index as u64; N_WORDS]));
        }
        assert!(!chunk.push([0; N_WORDS]));
        assert_eq!(size_of_val(&*chunk.lines), 32 * Chunk::N_ENTRIES);
    }
}
