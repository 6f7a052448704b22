//! Finds a stack's record by its hash, without a lock.

use std::{ptr, sync::atomic::Ordering};

use super::{key::Key, record::Record};
use crate::sync::{AtomicPtr, NotAtomic};

/// A hash table with open addressing. Entries are added and never changed, so a reader may miss the newest entries but
/// finds all that existed when it started.
#[derive(Debug)]
pub(super) struct Index {
    /// Null, or a pointer to a record, with some bits of its hash in the unused bits of an address.
    slots: Box<[AtomicPtr<u8>]>,
    made: NotAtomic,
}

/// Whether a pointer has room for 16 bits of the hash, which avoid reading most records of other stacks. Elsewhere, the
/// hash in the record is used.
const HAS_TAGS: bool = cfg!(all(target_arch = "x86_64", target_pointer_width = "64"));
const TAG_SHIFT: u32 = if HAS_TAGS { 48 } else { 0 };

impl Index {
    /// Creates an empty index of `n_slots`, a power of two, with room for half as many records.
    pub(super) fn new(n_slots: usize) -> Index {
        assert!(n_slots.is_power_of_two());
        let slots = (0..n_slots).map(|_| AtomicPtr::new(ptr::null_mut())).collect();
        let index = Index { slots, made: NotAtomic::default() };
        index.made.write();
        index
    }

    /// Returns the most records. Half the slots remain empty, so that chains are short and each ends.
    pub(super) fn capacity(&self) -> usize {
        self.slots.len() / 2
    }

    /// Returns the record of a stack, if the index has it.
    #[inline(always)]
    pub(super) fn find(&self, key: Key<'_>) -> Option<Record> {
        self.made.read();
        let mut at = self.start(key.hash);
        loop {
            let entry = self.slots[at].load(Ordering::Acquire);
            if entry.is_null() {
                return None;
            }
            if tag_of(entry) == tag(key.hash) {
                // SAFETY: `add` stored this pointer, and the owner of this index keeps
                // the arena of its records.
                let record = unsafe { Record::from_ptr(untagged(entry)) };
                if record.is(key) {
                    return Some(record);
                }
            }
            at = (at + 1) & (self.slots.len() - 1);
        }
    }

    /// Adds a record that is not in the index yet. One thread at a time may add, up to the capacity.
    pub(super) fn add(&self, record: Record) {
        let mut at = self.start(record.hash());
        // Relaxed: the entries so far were added by this thread, or by threads that had the lock before.
        while !self.slots[at].load(Ordering::Relaxed).is_null() {
            at = (at + 1) & (self.slots.len() - 1);
        }
        let entry = record.as_ptr().map_addr(|address| address | tag(record.hash()));
        self.slots[at].store(entry, Ordering::Release);
    }

    #[inline(always)]
    fn start(&self, hash: u64) -> usize {
        hash as usize & (self.slots.len() - 1)
    }
}

#[inline(always)]
fn tag(hash: u64) -> usize {
    if HAS_TAGS { (hash >> 48 << TAG_SHIFT) as usize } else { 0 }
}

#[inline(always)]
fn tag_of(entry: *mut u8) -> usize {
    if HAS_TAGS { entry.addr() >> TAG_SHIFT << TAG_SHIFT } else { 0 }
}

#[inline(always)]
fn untagged(entry: *mut u8) -> *mut u8 {
    entry.map_addr(|address| address & !tag(u64::MAX))
}
