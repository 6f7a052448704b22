//! The memory of stacks: on the heap, or in the file of a tape, which gets what names them too.

use std::{ptr::NonNull, sync::Arc};

use memreel_lockfree::stacks::{HeapChunk, MIN_CHUNK_BYTES, Memory, RecordChunk};

use super::noted::StackNotes;
use crate::tape::{BODY_BYTES, Kind, Owner, Slot, TakenAt, TapeFile};

/// Where new stacks are.
#[derive(Debug, Default)]
pub(crate) struct StackMemory {
    /// The file in which chunks are created.
    pub(super) file: Option<Arc<TapeFile>>,
    /// What the file knows to name stacks.
    pub(super) noted: Option<Arc<StackNotes>>,
}

/// A chunk of records.
#[derive(Debug)]
pub(crate) enum Chunk {
    Heap(HeapChunk),
    /// In the file of a tape, where a reader finds the records.
    File(Slot),
}

impl Memory for StackMemory {
    type Chunk = Chunk;

    fn chunk(&mut self) -> Chunk {
        match self.file.as_ref().and_then(|file| file.slot()) {
            Some(slot) => {
                slot.begin(Kind::Stacks, Owner::Recording, TakenAt::default(), 0);
                Chunk::File(slot)
            }
            None => Chunk::Heap(HeapChunk::default()),
        }
    }

    fn may_write(&self, chunk: &Chunk) -> bool {
        match chunk {
            Chunk::Heap(_) => true,
            Chunk::File(_) => self.file.as_ref().is_some_and(|file| file.is_open()),
        }
    }
}

// SAFETY: a slot keeps its body, which belongs to it alone; bodies are as long (asserted here) and as aligned as chunks.
unsafe impl RecordChunk for Chunk {
    fn at(&self) -> NonNull<u8> {
        match self {
            Chunk::Heap(chunk) => chunk.at(),
            Chunk::File(slot) => slot.body(),
        }
    }

    fn n_bytes(&self) -> usize {
        const { assert!(BODY_BYTES >= MIN_CHUNK_BYTES) };
        match self {
            Chunk::Heap(chunk) => chunk.n_bytes(),
            Chunk::File(_) => BODY_BYTES,
        }
    }

    fn set_len(&self, n_bytes: usize) {
        if let Chunk::File(slot) = self {
            slot.set_len(n_bytes);
        }
    }
}
