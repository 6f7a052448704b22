//! The memory of records: chunks that never move, on the heap or where the program has them.

use std::{
    alloc::{Layout, alloc, dealloc, handle_alloc_error},
    fmt::Debug,
    ptr::NonNull,
};

/// The alignment of chunks and of records.
pub(super) const ALIGN: usize = 16;
/// The size of a chunk on the heap: room for about 400 stacks of 20 frames.
const CHUNK_BYTES: usize = 1 << 16;
/// The size of the smallest chunk.
pub const MIN_CHUNK_BYTES: usize = 32 << 10;

/// Where the chunks of records are.
pub trait Memory: Debug + Send {
    /// A chunk.
    type Chunk: RecordChunk;

    /// Returns a new chunk.
    fn chunk(&mut self) -> Self::Chunk;

    /// Returns whether a chunk may be written: not if its file was closed, as in a child of `fork`.
    fn may_write(&self, chunk: &Self::Chunk) -> bool;
}

/// A chunk of records.
///
/// # Safety
///
/// Until the chunk is dropped, [`RecordChunk::at`] returns the same address, that of [`RecordChunk::n_bytes`] bytes, at least
/// [`MIN_CHUNK_BYTES`], which may be written and read, are aligned to 16, and which nothing else writes.
pub unsafe trait RecordChunk: Debug + Send {
    /// Returns the first byte.
    fn at(&self) -> NonNull<u8>;

    /// Returns the size.
    fn n_bytes(&self) -> usize;

    /// Notes that records fill the first `n_bytes` bytes.
    fn set_len(&self, n_bytes: usize);
}

/// A chunk on the heap.
#[derive(Debug)]
pub struct HeapChunk(NonNull<u8>);

// SAFETY: the memory belongs to the chunk alone.
unsafe impl Send for HeapChunk {}

impl HeapChunk {
    fn layout() -> Layout {
        const { assert!(CHUNK_BYTES.is_multiple_of(ALIGN)) };
        Layout::from_size_align(CHUNK_BYTES, ALIGN).expect("a power of two")
    }
}

impl Default for HeapChunk {
    fn default() -> HeapChunk {
        // SAFETY: the layout has a size.
        let chunk = unsafe { alloc(HeapChunk::layout()) };
        HeapChunk(NonNull::new(chunk).unwrap_or_else(|| handle_alloc_error(HeapChunk::layout())))
    }
}

// SAFETY: the allocation of the layout, until `drop`.
unsafe impl RecordChunk for HeapChunk {
    fn at(&self) -> NonNull<u8> {
        self.0
    }

    fn n_bytes(&self) -> usize {
        CHUNK_BYTES
    }

    fn set_len(&self, _: usize) {}
}

impl Drop for HeapChunk {
    fn drop(&mut self) {
        // SAFETY: from `default`, with the same layout.
        unsafe { dealloc(self.0.as_ptr(), HeapChunk::layout()) };
    }
}
