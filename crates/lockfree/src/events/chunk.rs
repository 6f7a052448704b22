//! A fixed-size run of one thread's events, written without a lock and readable while it is written.
#![forbid(unsafe_code)]

use std::sync::{Arc, atomic::Ordering};

use super::lines::{Memory, N_IN_LINE, N_LINES, Words};
use crate::sync::AtomicUsize;

/// Room for [`Chunk::N_ENTRIES`] events of 32 bytes, in memory of the kind `M`.
///
/// Exactly one thread writes. It stores the words of an event with relaxed stores, the order word last, and then the
/// new length with a release store. A reader loads the length with acquire and reads only events below it, so each
/// event it reads is complete. Words below the length never change while the chunk is shared: a chunk is cleared
/// for reuse through `&mut`, which proves that no reader has it. A reader of a tape's file, after the process has
/// ended, has no length: an event is complete if its order word is not 0.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Chunk<M> {
    len: AtomicUsize,
    /// The position in a tape's list of open chunks. Relaxed: the tape's lock orders it.
    place: AtomicUsize,
    lines: M,
}

impl<M> Chunk<M> {
    /// How many events fit.
    pub const N_ENTRIES: usize = N_LINES * N_IN_LINE;
}

impl<M: Memory> Chunk<M> {
    /// Returns an empty chunk in this memory.
    pub fn of(lines: M) -> Chunk<M> {
        Chunk { len: AtomicUsize::new(0), place: AtomicUsize::new(0), lines }
    }

    /// Returns the memory.
    pub fn lines(&self) -> &M {
        &self.lines
    }

    /// Returns the position in a tape's list of open chunks, if the chunk is in it.
    pub(super) fn place(&self) -> usize {
        self.place.load(Ordering::Relaxed)
    }

    /// Notes the position in the list.
    pub(super) fn set_place(&self, place: usize) {
        self.place.store(place, Ordering::Relaxed);
    }

    /// Appends an event; returns `false` if the chunk is full. Only the thread that owns the chunk may call it.
    #[inline(always)]
    #[must_use]
    pub fn push(&self, words: Words) -> bool {
        self.push_all([words])
    }

    /// Appends all of the events, or none of them. Otherwise like [`Chunk::push`].
    #[inline(always)]
    #[must_use]
    pub fn push_all<const N: usize>(&self, events: [Words; N]) -> bool {
        // Relaxed: this thread stored it, or got the chunk under the tape's lock.
        let len = self.len.load(Ordering::Relaxed);
        if len + N > Self::N_ENTRIES {
            return false;
        }
        for (index, words) in (len..).zip(events) {
            let place = &self.lines[index / N_IN_LINE].0[index % N_IN_LINE];
            place[0].store(words[0], Ordering::Relaxed);
            place[2].store(words[2], Ordering::Relaxed);
            place[3].store(words[3], Ordering::Relaxed);
            // Stored after the other words, for the compiler and for the processor.
            place[1].store(words[1], Ordering::Release);
        }
        self.len.store(len + N, Ordering::Release);
        true
    }

    /// Returns the number of complete events.
    #[inline]
    #[allow(clippy::len_without_is_empty, reason = "another thread may write the first event")]
    pub fn len(&self) -> usize {
        self.len.load(Ordering::Acquire)
    }

    /// Returns the words of event `index`, which must be below a length returned by [`Chunk::len`].
    #[inline]
    pub fn read(&self, index: usize) -> Words {
        let place = &self.lines[index / N_IN_LINE].0[index % N_IN_LINE];
        // Relaxed: the words were written before the length that the caller has loaded with acquire.
        std::array::from_fn(|word| place[word].load(Ordering::Relaxed))
    }

    /// Removes all events, so that the chunk can be reused.
    pub(super) fn clear(&mut self) {
        // Relaxed: `&mut`; the next thread gets the chunk under the tape's lock.
        self.len.store(0, Ordering::Relaxed);
    }
}

/// A full chunk with the order words of its first and last event.
#[derive(Debug)]
pub struct FullChunk<M> {
    /// The order word of the first event.
    pub first: u64,
    /// The order word of the last event.
    pub last: u64,
    /// The chunk.
    pub chunk: Arc<Chunk<M>>,
}

#[cfg(all(test, not(memreel_loom)))]
mod tests {
    use super::super::N_WORDS;
    use crate::testing::OnHeap;

    type Chunk = super::Chunk<OnHeap>;

    #[test]
    fn a_chunk_holds_n_entries_of_32_bytes_and_refuses_one_more() {
        let chunk = Chunk::default();
        for index in 0..Chunk::N_ENTRIES {
            assert!(chunk.push([index as u64; N_WORDS]));
            assert_eq!((chunk.len(), chunk.read(index)), (index + 1, [index as u64; N_WORDS]));
        }
        assert!(!chunk.push([0; N_WORDS]));
        let chunk = Chunk::default();
        (0..Chunk::N_ENTRIES / 3).for_each(|_| assert!(chunk.push_all([[1; N_WORDS]; 3])));
        assert!(!chunk.push_all([[2; N_WORDS]; 3]) && chunk.push([3; N_WORDS]));
        assert_eq!(size_of_val(&*chunk.lines), 32 * Chunk::N_ENTRIES);
    }
}
