//! Finds a stack's record by its hash, without a lock.

use std::{
    ptr,
    sync::atomic::{AtomicPtr, Ordering},
};

use super::{interner::Key, record::Record};

/// A hash table with open addressing. Entries are added and never changed, so
/// a reader that misses the newest finds all that were there when it came.
#[derive(Debug)]
pub(super) struct Index {
    /// Null, or a record with some bits of its hash where addresses have none.
    slots: Box<[AtomicPtr<u8>]>,
}

/// Where a pointer has room for 16 bits of the hash: they spare a look at most
/// records of other stacks. Elsewhere the hash in the record must do.
const HAS_TAGS: bool = cfg!(all(target_arch = "x86_64", target_pointer_width = "64"));
const TAG_SHIFT: u32 = if HAS_TAGS { 48 } else { 0 };

impl Index {
    /// Room for half as many records as there are slots, a power of two.
    pub(super) fn new(n_slots: usize) -> Index {
        assert!(n_slots.is_power_of_two());
        Index { slots: (0..n_slots).map(|_| AtomicPtr::new(ptr::null_mut())).collect() }
    }

    /// Half the slots stay empty: chains are short, and each ends.
    pub(super) fn capacity(&self) -> usize {
        self.slots.len() / 2
    }

    #[inline(always)]
    pub(super) fn find(&self, key: Key<'_>) -> Option<Record> {
        let mut at = self.start(key.hash);
        loop {
            let entry = self.slots[at].load(Ordering::Acquire);
            if entry.is_null() {
                return None;
            }
            if tag_of(entry) == tag(key.hash) {
                // SAFETY: `add` put it here, and whoever owns this index keeps
                // the arena of its records.
                let record = unsafe { Record::from_ptr(untagged(entry)) };
                if record.is(key) {
                    return Some(record);
                }
            }
            at = (at + 1) & (self.slots.len() - 1);
        }
    }

    /// Adds a record that is not here. One thread at a time, and not beyond the capacity.
    pub(super) fn add(&self, record: Record) {
        let mut at = self.start(record.hash());
        while !self.slots[at].load(Ordering::Relaxed).is_null() {
            at = (at + 1) & (self.slots.len() - 1);
        }
        let entry = record.as_ptr().map_addr(|address| address | tag(record.hash()));
        self.slots[at].store(entry, Ordering::Release);
    }

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
