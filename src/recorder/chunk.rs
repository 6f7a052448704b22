//! A stretch of one thread's events, written without a lock and read while it is written.

use std::sync::atomic::Ordering;

use crate::sync::{AtomicU64, AtomicUsize};

/// Four words: address; ticks and action; stack and context; size.
pub(super) const N_WORDS: usize = 4;
const N_IN_LINE: usize = 4;
/// 32 KiB: a thread that records little holds little, and the lists of chunks
/// are visited once in a thousand events.
const N_LINES: usize = if cfg!(loom) { 1 } else { 256 };

type Slot = [AtomicU64; N_WORDS];

/// Two lines of the cache, because processors fetch them in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Line([Slot; N_IN_LINE]);

/// Room for [`Chunk::N_ENTRIES`] events of 32 bytes.
///
/// One thread writes: the words of an event, then the new length. Whoever reads
/// the length first sees whole events below it. Words below the length never
/// change, so nothing is torn; a chunk is used again only by its sole holder.
#[derive(Debug)]
#[repr(align(128))]
pub(super) struct Chunk {
    len: AtomicUsize,
    lines: Box<[Line; N_LINES]>,
}

impl Default for Chunk {
    fn default() -> Chunk {
        // By way of the heap: a thread's stack may have no room for a chunk.
        let lines: Box<[Line]> = std::iter::repeat_with(Line::default).take(N_LINES).collect();
        let Ok(lines) = lines.try_into() else { unreachable!("as many as were taken") };
        Chunk { len: AtomicUsize::new(0), lines }
    }
}

impl Chunk {
    pub(super) const N_ENTRIES: usize = N_LINES * N_IN_LINE;

    /// Writes another event, or says that there is no room. For the one thread that writes here.
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

    /// How many events are whole.
    pub(super) fn len(&self) -> usize {
        self.len.load(Ordering::Acquire)
    }

    /// An event below a length that was read.
    pub(super) fn read(&self, index: usize) -> [u64; N_WORDS] {
        let slot = &self.lines[index / N_IN_LINE].0[index % N_IN_LINE];
        std::array::from_fn(|word| slot[word].load(Ordering::Relaxed))
    }

    /// Empties it, for another use.
    pub(super) fn clear(&mut self) {
        self.len.store(0, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chunk_takes_its_number_of_events_in_32_bytes_each() {
        let chunk = Chunk::default();
        for index in 0..Chunk::N_ENTRIES {
            assert!(chunk.push([index as u64; N_WORDS]));
            assert_eq!((chunk.len(), chunk.read(index)), (index + 1, [index as u64; N_WORDS]));
        }
        assert!(!chunk.push([0; N_WORDS]));
        assert_eq!(size_of_val(&*chunk.lines), 32 * Chunk::N_ENTRIES);
    }
}
