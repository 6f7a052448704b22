//! A stack in memory: two words of header, then the stack's words, then the generation of the modules.

use std::{
    alloc::{Layout, alloc, dealloc, handle_alloc_error},
    ptr::NonNull,
    slice,
};

use super::key::Key;
use crate::stack::modules::Generation;
#[cfg(not(loom))]
use crate::tape::{BODY_BYTES, Kind, Owner, Slot, TakenAt, TapeFile};
use memreel_snapshot::words::StackId;

/// The header's two words; under loom also a third, for the mark of the write.
const HEADER_BYTES: usize = if cfg!(loom) { 32 } else { 16 };
const WORD_BYTES: usize = size_of::<usize>();
const ALIGN: usize = 16;
/// The size of what follows the words.
const GENERATION_BYTES: usize = 8;
/// Room for about 400 stacks of 20 frames.
const CHUNK_BYTES: usize = 1 << 16;
/// The size of the smallest chunk, which is in a file.
const MIN_CHUNK_BYTES: usize = 32 << 10;

/// A stack's record, which never changes once it is created.
///
/// Number and words are adjacent, so finding a stack touches no third location. A pointer rather than a reference,
/// because its length is not part of the type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Record(NonNull<u8>);

// SAFETY: records are read only, and `Arena`, which owns them, is `Send`.
unsafe impl Send for Record {}

impl Record {
    /// Returns the record as a plain pointer, to be kept in an atomic.
    pub(super) fn as_ptr(self) -> *mut u8 {
        self.0.as_ptr()
    }

    /// Returns the record at a pointer.
    ///
    /// # Safety
    ///
    /// The pointer is from [`Record::as_ptr`], and the record's arena outlives every use of the record.
    #[inline(always)]
    pub(super) unsafe fn from_ptr(record: *mut u8) -> Record {
        // SAFETY: `as_ptr` never returns null.
        Record(unsafe { NonNull::new_unchecked(record) })
    }

    /// Returns the stack's number.
    #[inline(always)]
    pub(super) fn stack(self) -> StackId {
        // SAFETY: `Arena::put` wrote the header.
        StackId(unsafe { self.0.add(8).cast::<u32>().read() })
    }

    #[inline(always)]
    pub(super) fn hash(self) -> u64 {
        self.mark_read();
        // SAFETY: `Arena::put` wrote the header.
        unsafe { self.0.cast::<u64>().read() }
    }

    /// Under loom, fails if the record may not be written yet.
    #[inline(always)]
    fn mark_read(self) {
        #[cfg(loom)]
        // SAFETY: `Arena::put` wrote the pointer to a mark that the arena keeps.
        unsafe {
            (*self.0.add(16).cast::<*const crate::process::sync::NotAtomic>().read()).read();
        }
    }

    #[inline(always)]
    fn n_native(self) -> usize {
        // SAFETY: `Arena::put` wrote the header.
        usize::from(unsafe { self.0.add(12).cast::<u16>().read() })
    }

    #[inline(always)]
    fn n_source(self) -> usize {
        // SAFETY: `Arena::put` wrote the header.
        usize::from(unsafe { self.0.add(14).cast::<u16>().read() })
    }

    /// Returns the return addresses, outermost first, and the source's words.
    #[inline(always)]
    pub(super) fn parts<'a>(self) -> (&'a [usize], &'a [usize]) {
        let n = self.n_native() + self.n_source();
        // SAFETY: `Arena::put` wrote `n` words behind the header, and the arena
        // outlives every use of the record, by the contract of `from_ptr`.
        let words = unsafe { slice::from_raw_parts(self.0.add(HEADER_BYTES).cast::<usize>().as_ptr(), n) };
        words.split_at(self.n_native())
    }

    /// Returns whether this is the record of the stack with this key.
    #[inline(always)]
    pub(super) fn is(self, key: Key<'_>) -> bool {
        self.hash() == key.hash && {
            let (native, source) = self.parts();
            native == key.native && source == key.source
        }
    }
}

/// The memory of records: chunks that never move.
#[derive(Debug, Default)]
pub(super) struct Arena {
    chunks: Vec<Chunk>,
    /// How many bytes of the last chunk are in use.
    n_bytes: usize,
    /// The file in which new chunks are created.
    #[cfg(not(loom))]
    file: Option<std::sync::Arc<TapeFile>>,
    /// The marks of the records.
    #[cfg(loom)]
    #[expect(clippy::vec_box, reason = "records hold their addresses")]
    marks: Vec<Box<crate::process::sync::NotAtomic>>,
}

/// A chunk of records.
#[derive(Debug)]
enum Chunk {
    Heap(NonNull<u8>),
    /// In the file of a tape, where a reader finds the records.
    #[cfg(not(loom))]
    File(Slot),
}

impl Chunk {
    fn at(&self) -> NonNull<u8> {
        match self {
            Chunk::Heap(at) => *at,
            #[cfg(not(loom))]
            Chunk::File(slot) => slot.body(),
        }
    }

    fn n_bytes(&self) -> usize {
        match self {
            Chunk::Heap(_) => CHUNK_BYTES,
            #[cfg(not(loom))]
            Chunk::File(_) => BODY_BYTES,
        }
    }
}

// SAFETY: the chunks belong to the arena alone; records in them are read only.
unsafe impl Send for Arena {}

impl Arena {
    fn layout() -> Layout {
        const { assert!(CHUNK_BYTES.is_multiple_of(ALIGN)) };
        Layout::from_size_align(CHUNK_BYTES, ALIGN).expect("a power of two")
    }

    /// Uses a file for records from now on.
    #[cfg(not(loom))]
    pub(super) fn set_file(&mut self, file: Option<std::sync::Arc<TapeFile>>) {
        self.file = file;
        // The next record starts a new chunk.
        self.n_bytes = CHUNK_BYTES;
    }

    /// Copies a stack into a new record.
    pub(super) fn put(&mut self, key: Key<'_>, stack: StackId, generation: Generation) -> Record {
        let n_words = key.native.len() + key.source.len();
        let n_bytes = (HEADER_BYTES + n_words * WORD_BYTES + GENERATION_BYTES).next_multiple_of(ALIGN);
        // Both parts have at most `MAX_DEPTH` words.
        assert!(n_bytes <= MIN_CHUNK_BYTES, "a stack fits a chunk");
        let at = self.room_for(n_bytes);
        // SAFETY: `room_for` returns `n_bytes` of a chunk that no other record uses,
        // aligned to 16: enough for the header and for both lists of words.
        unsafe {
            at.cast::<u64>().write(key.hash);
            at.add(8).cast::<u32>().write(stack.0);
            at.add(12).cast::<u16>().write(key.native.len() as u16);
            at.add(14).cast::<u16>().write(key.source.len() as u16);
            let words = at.add(HEADER_BYTES).cast::<usize>();
            words.copy_from_nonoverlapping(NonNull::from(key.native).cast(), key.native.len());
            words
                .add(key.native.len())
                .copy_from_nonoverlapping(NonNull::from(key.source).cast(), key.source.len());
            words.add(n_words).cast::<u64>().write_unaligned(generation.number().into());
        }
        #[cfg(not(loom))]
        if let Some(Chunk::File(slot)) = self.chunks.last() {
            slot.set_len(self.n_bytes);
        }
        #[cfg(loom)]
        {
            let mark = Box::new(crate::process::sync::NotAtomic::default());
            mark.write();
            // SAFETY: the third word of the header, of the same room.
            unsafe { at.add(16).cast::<*const crate::process::sync::NotAtomic>().write(&raw const *mark) };
            self.marks.push(mark);
        }
        Record(at)
    }

    fn room_for(&mut self, n_bytes: usize) -> NonNull<u8> {
        let has_room = |chunk: &&Chunk| self.n_bytes + n_bytes <= chunk.n_bytes() && self.may_write(chunk);
        let chunk = match self.chunks.last().filter(has_room) {
            Some(chunk) => chunk.at(),
            None => self.grow(),
        };
        // SAFETY: within the chunk, by the check above or because it is new.
        let room = unsafe { chunk.add(self.n_bytes) };
        self.n_bytes += n_bytes;
        room
    }

    /// Returns whether a chunk may be written: not if its file was closed, as in a child of `fork`.
    #[cfg_attr(loom, allow(unused_variables, clippy::unused_self, reason = "chunks are in memory"))]
    fn may_write(&self, chunk: &Chunk) -> bool {
        #[cfg(not(loom))]
        if let Chunk::File(_) = chunk {
            return self.file.as_ref().is_some_and(|file| file.is_open());
        }
        true
    }

    fn grow(&mut self) -> NonNull<u8> {
        let chunk = self.chunk_in_file().unwrap_or_else(|| {
            // SAFETY: the layout has a size.
            let chunk = unsafe { alloc(Arena::layout()) };
            Chunk::Heap(NonNull::new(chunk).unwrap_or_else(|| handle_alloc_error(Arena::layout())))
        });
        let at = chunk.at();
        self.chunks.push(chunk);
        self.n_bytes = 0;
        at
    }

    #[cfg(not(loom))]
    fn chunk_in_file(&self) -> Option<Chunk> {
        let slot = self.file.as_ref()?.slot()?;
        slot.begin(Kind::Stacks, Owner::Recording, TakenAt::default(), 0);
        Some(Chunk::File(slot))
    }

    #[cfg(loom)]
    #[expect(clippy::unused_self, reason = "as above")]
    fn chunk_in_file(&self) -> Option<Chunk> {
        None
    }
}

impl Drop for Arena {
    #[cfg_attr(
        loom,
        allow(irrefutable_let_patterns, reason = "loom has no files, so all memory is on the heap")
    )]
    fn drop(&mut self) {
        for chunk in self.chunks.drain(..) {
            if let Chunk::Heap(at) = chunk {
                // SAFETY: from `grow`, with the same layout, and each once.
                unsafe { dealloc(at.as_ptr(), Arena::layout()) };
            }
        }
    }
}
