//! A stack in memory: two words of header, then the stack's words, then the generation of the modules.

use std::{ptr::NonNull, slice};

use super::key::Key;

/// The header's two words; under loom also a third, for the mark of the write.
pub(super) const HEADER_BYTES: usize = if cfg!(memreel_loom) { 32 } else { 16 };

/// A stack's record, which never changes once it is created.
///
/// Number and words are adjacent, so finding a stack touches no third location. A pointer rather than a reference,
/// because its length is not part of the type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Record(NonNull<u8>);

// SAFETY: records are read only, and `Arena`, which owns them, is `Send`.
unsafe impl Send for Record {}

impl Record {
    /// Returns the record that [`Arena::put`](super::arena::Arena::put) writes at an address.
    pub(super) fn at(at: NonNull<u8>) -> Record {
        Record(at)
    }

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
    pub(super) fn stack(self) -> u32 {
        // SAFETY: `Arena::put` wrote the header.
        unsafe { self.0.add(8).cast::<u32>().read() }
    }

    /// Returns the hash of the stack's key.
    #[inline(always)]
    pub(super) fn hash(self) -> u64 {
        self.mark_read();
        // SAFETY: `Arena::put` wrote the header.
        unsafe { self.0.cast::<u64>().read() }
    }

    /// Under loom, fails if the record may not be written yet.
    #[inline(always)]
    fn mark_read(self) {
        #[cfg(memreel_loom)]
        // SAFETY: `Arena::put` wrote the pointer to a mark that the arena keeps.
        unsafe {
            (*self.0.add(16).cast::<*const crate::sync::NotAtomic>().read()).read();
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
