//! One slot of a tape's file in use.

use std::{
    ptr::NonNull,
    slice,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering, fence},
    },
};

use super::{
    layout::{BODY_BYTES, Kind, Owner, SLOT_HEADER_BYTES, SlotWord, checksum},
    mapped::Mapped,
};

/// A slot that only its owner writes. Dropping it frees it, unless the file was closed.
#[derive(Debug)]
pub(crate) struct Slot {
    /// Must be dropped after the last use of `at`: the file unmaps when its last slot is dropped.
    file: Arc<Mapped>,
    number: u32,
    at: NonNull<u8>,
    /// Whether the body has been zeros since the file grew.
    is_fresh: bool,
}

// SAFETY: the memory belongs to the slot alone, because `Mapped::take` gives no slot twice until it is taken back; its header has atomics only, and whoever writes the
// body has its own rules for threads.
unsafe impl Send for Slot {}
// SAFETY: as above.
unsafe impl Sync for Slot {}

/// When a chunk of events was started, on the recorder's clock.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TakenAt {
    pub(crate) ticks: u64,
    pub(crate) elapsed_ns: u64,
}

impl Slot {
    /// Takes a slot of a file; see [`TapeFile::slot`](super::TapeFile::slot).
    pub(super) fn take(file: &Arc<Mapped>) -> Option<Slot> {
        let (number, at, is_fresh) = file.take()?;
        // A reader that loads, with acquire, a word that this thread writes into the body also sees that the earlier
        // use has ended.
        fence(Ordering::Release);
        Some(Slot { file: file.clone(), number, at, is_fresh })
    }

    /// Returns its number in the file.
    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    pub(crate) fn is_fresh(&self) -> bool {
        self.is_fresh
    }

    /// Returns the body: [`BODY_BYTES`] bytes, aligned to 128, which live as long as the slot.
    pub(crate) fn body(&self) -> NonNull<u8> {
        // SAFETY: a slot has its header and its body, by `Mapped::take`.
        unsafe { self.at.add(SLOT_HEADER_BYTES) }
    }

    fn word(&self, word: SlotWord) -> &AtomicU64 {
        // SAFETY: the header has 16 words, aligned to 128, and all accesses to them are atomic; it is mapped as long as
        // `self.file` lives.
        unsafe { self.at.cast::<AtomicU64>().add(word as usize).as_ref() }
    }

    /// Gives the slot its kind. Readers may read it from now on, so its body must be ready.
    pub(crate) fn begin(&self, kind: Kind, owner: Owner, at: TakenAt, n_dropped: u64) {
        let words = [
            (SlotWord::Use, self.file.next_use()),
            (SlotWord::Device, owner.number().cast_unsigned()),
            (SlotWord::Len, 0),
            (SlotWord::Checksum, 0),
            (SlotWord::Ticks, at.ticks),
            (SlotWord::ElapsedNs, at.elapsed_ns),
            (SlotWord::NDropped, n_dropped),
            (SlotWord::Until, 0),
        ];
        // Relaxed: the kind, which is stored after them with release, makes them visible.
        words.into_iter().for_each(|(word, value)| self.word(word).store(value, Ordering::Relaxed));
        self.word(SlotWord::Kind).store(kind as u64, Ordering::Release);
    }

    /// Makes the first `n_bytes` of the body visible to readers.
    pub(crate) fn set_len(&self, n_bytes: usize) {
        self.word(SlotWord::Len).store(n_bytes as u64, Ordering::Release);
    }

    /// Notes that events of the device after the order word `until` are elsewhere.
    pub(crate) fn end_at(&self, until: u64) {
        self.word(SlotWord::Until).store(until, Ordering::Release);
    }

    /// Copies bytes into the body, which nothing else writes, and makes them visible.
    ///
    /// # Panics
    /// If they are more than [`BODY_BYTES`].
    pub(crate) fn fill(&self, bytes: &[u8]) {
        assert!(bytes.len() <= BODY_BYTES, "a body has {BODY_BYTES} bytes");
        // SAFETY: within the body, by the assertion.
        unsafe { self.body().copy_from_nonoverlapping(NonNull::from(bytes).cast(), bytes.len()) };
        self.set_len(bytes.len());
    }

    /// Writes the checksum of the body's first bytes, which must not change any more.
    pub(crate) fn seal(&self, n_bytes: usize) -> u64 {
        // SAFETY: within the body; the caller's contract is that it does not change any more, and a chunk's words,
        // which are atomics, are not written after it is full.
        let body = unsafe { slice::from_raw_parts(self.body().as_ptr(), n_bytes.min(BODY_BYTES)) };
        let checksum = checksum(body);
        self.word(SlotWord::Checksum).store(checksum, Ordering::Release);
        checksum
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        if self.file.is_open() {
            self.word(SlotWord::Kind).store(Kind::Free as u64, Ordering::Release);
            self.file.take_back(self.number);
        }
    }
}
