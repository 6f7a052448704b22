//! The arena: where records are written, one after the other.

use std::ptr::NonNull;

use super::{
    key::Key,
    memory::{ALIGN, MIN_CHUNK_BYTES, Memory, RecordChunk},
    record::{HEADER_BYTES, Record},
};
#[cfg(memreel_loom)]
use crate::sync::NotAtomic;

const WORD_BYTES: usize = size_of::<usize>();
/// The size of what follows the words.
const GENERATION_BYTES: usize = 8;

/// The memory of records: chunks that never move.
#[derive(Debug)]
pub(super) struct Arena<M: Memory> {
    chunks: Vec<M::Chunk>,
    /// How many bytes of the last chunk are in use.
    n_bytes: usize,
    memory: M,
    /// The marks of the records.
    #[cfg(memreel_loom)]
    #[expect(clippy::vec_box, reason = "records hold their addresses")]
    marks: Vec<Box<NotAtomic>>,
}

impl<M: Memory> Arena<M> {
    pub(super) fn new(memory: M) -> Arena<M> {
        Arena {
            chunks: Vec::new(),
            n_bytes: 0,
            memory,
            #[cfg(memreel_loom)]
            marks: Vec::new(),
        }
    }

    pub(super) fn memory(&self) -> &M {
        &self.memory
    }

    /// Changes where chunks are; the next record starts a new one.
    pub(super) fn change_memory<T>(&mut self, change: impl FnOnce(&mut M) -> T) -> T {
        self.n_bytes = self.chunks.last().map_or(0, RecordChunk::n_bytes);
        change(&mut self.memory)
    }

    /// Copies a stack into a new record.
    pub(super) fn put(&mut self, key: Key<'_>, stack: u32, generation: u32) -> Record {
        let n_words = key.native.len() + key.source.len();
        let n_bytes = (HEADER_BYTES + n_words * WORD_BYTES + GENERATION_BYTES).next_multiple_of(ALIGN);
        // memreel limits both parts to 128 words.
        assert!(n_bytes <= MIN_CHUNK_BYTES, "a stack fits a chunk");
        let at = self.room_for(n_bytes);
        // SAFETY: `room_for` returns `n_bytes` of a chunk that no other record uses,
        // aligned to 16: enough for the header and for both lists of words.
        unsafe {
            at.cast::<u64>().write(key.hash);
            at.add(8).cast::<u32>().write(stack);
            at.add(12).cast::<u16>().write(key.native.len() as u16);
            at.add(14).cast::<u16>().write(key.source.len() as u16);
            let words = at.add(HEADER_BYTES).cast::<usize>();
            words.copy_from_nonoverlapping(NonNull::from(key.native).cast(), key.native.len());
            words
                .add(key.native.len())
                .copy_from_nonoverlapping(NonNull::from(key.source).cast(), key.source.len());
            words.add(n_words).cast::<u64>().write_unaligned(generation.into());
        }
        self.chunks.last().into_iter().for_each(|chunk| chunk.set_len(self.n_bytes));
        #[cfg(memreel_loom)]
        {
            let mark = Box::new(NotAtomic::default());
            mark.write();
            // SAFETY: the third word of the header, of the same room.
            unsafe { at.add(16).cast::<*const NotAtomic>().write(&raw const *mark) };
            self.marks.push(mark);
        }
        Record::at(at)
    }

    fn room_for(&mut self, n_bytes: usize) -> NonNull<u8> {
        let has_room =
            |chunk: &&M::Chunk| self.n_bytes + n_bytes <= chunk.n_bytes() && self.memory.may_write(chunk);
        let chunk = match self.chunks.last().filter(has_room) {
            Some(chunk) => chunk.at(),
            None => self.grow(),
        };
        // SAFETY: within the chunk, by the check above or because it is new.
        let room = unsafe { chunk.add(self.n_bytes) };
        self.n_bytes += n_bytes;
        room
    }

    fn grow(&mut self) -> NonNull<u8> {
        let chunk = self.memory.chunk();
        let at = chunk.at();
        self.chunks.push(chunk);
        self.n_bytes = 0;
        at
    }
}
