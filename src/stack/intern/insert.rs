//! Adds new stacks, under the one lock on the way of a capture.
//!
//! A stack is added once in the life of an interner, so this is the cold path. The
//! files on the way of every capture must not name a lock, and a test reads
//! them for it; so the lock has a file of its own.
#![forbid(unsafe_code)]

#[cfg(not(loom))]
use std::sync::Arc;
use std::{ptr, sync::atomic::Ordering};

#[cfg(not(loom))]
use super::noted::{AskLater, StackNotes};
use super::{
    index::Index,
    key::Key,
    limits::TABLE_FULL,
    record::{Arena, Record},
    reserve,
};
use crate::process::sync::{AtomicPtr, Mutex, MutexGuard, lock};
use crate::stack::modules::Generation;
#[cfg(not(loom))]
use crate::tape::TapeFile;
use memreel_snapshot::words::StackId;

/// The slots of the first index; few under loom, so that the index grows within a model.
const FIRST_SLOTS: usize = if cfg!(loom) { 2 } else { 64 };

/// The stacks in the order of their numbers, and the indexes that find them.
#[derive(Debug)]
pub(crate) struct Inserter {
    limit: usize,
    store: Mutex<Store>,
}

#[derive(Debug)]
pub(crate) struct Store {
    arena: Arena,
    /// Each record with the modules that were loaded when its stack was noted. One list, so that a panic in between
    /// cannot leave one of the two without the other.
    records: Vec<(Record, Generation)>,
    /// How many of them are whole stacks.
    n_whole: usize,
    /// The last is in force; readers may still use the others. Each is twice as large
    /// as the one before, so the old ones together are no larger than the last. Boxed,
    /// because readers hold their addresses.
    #[expect(clippy::vec_box, reason = "readers hold their addresses")]
    indexes: Vec<Box<Index>>,
    #[cfg(not(loom))]
    noted: Option<Arc<StackNotes>>,
}

impl Inserter {
    /// An inserter for at most `limit` stacks, and its first index, which lives as long as it.
    pub(super) fn new(limit: usize) -> (Inserter, *mut Index) {
        let store = Store {
            arena: Arena::default(),
            records: Vec::new(),
            n_whole: 0,
            indexes: vec![Box::new(Index::new(FIRST_SLOTS))],
            #[cfg(not(loom))]
            noted: None,
        };
        let index = store.index();
        (Inserter { limit, store: Mutex::new(store) }, index)
    }

    /// Returns the number of a stack, which another thread may have added a moment
    /// ago; `None` if the table is full. When the index grows, the new one is stored in `in_force`.
    pub(super) fn insert(
        &self,
        key: Key<'_>,
        generation: Generation,
        in_force: &AtomicPtr<Index>,
    ) -> Option<StackId> {
        let mut store = self.store();
        store.find(key).or_else(|| {
            store.has_room(self.limit).then(|| {
                store.n_whole += 1;
                store.add(key, generation, in_force)
            })
        })
    }

    /// Whether the table has room for a whole stack of this thread.
    pub(super) fn has_room(&self) -> bool {
        self.store().has_room(self.limit)
    }

    /// Returns the number of a short stack of a full table, which has room for as many as for whole ones; `None` if there
    /// is none left.
    pub(super) fn insert_short(
        &self,
        key: Key<'_>,
        generation: Generation,
        in_force: &AtomicPtr<Index>,
    ) -> Option<StackId> {
        let mut store = self.store();
        let has_room = store.records.len() - store.n_whole < self.limit;
        store.find(key).or_else(|| has_room.then(|| store.add(key, generation, in_force)))
    }

    /// Returns the number of the stack whose one frame marks a table without room.
    pub(super) fn full(&self, in_force: &AtomicPtr<Index>) -> StackId {
        let full = Key { hash: 0, native: &[TABLE_FULL], source: &[] };
        let mut store = self.store();
        store.find(full).unwrap_or_else(|| store.add(full, Generation::default(), in_force))
    }

    /// Returns the record of a stack of this table, and the generation in which it was noted.
    pub(super) fn record(&self, stack: StackId) -> Option<(Record, Generation)> {
        self.store().records.get(stack.0 as usize).copied()
    }

    /// Writes stacks into a file from now on, first those that are known; `None` ends it.
    #[cfg(not(loom))]
    pub(super) fn set_file(&self, file: Option<(Arc<TapeFile>, AskLater)>) {
        let mut store = self.store();
        store.arena.set_file(file.as_ref().map(|(file, _)| file.clone()));
        store.noted = file.map(|(file, later)| Arc::new(StackNotes::new(file, later)));
        if store.noted.is_none() {
            return;
        }
        let Store { arena, records, .. } = &mut *store;
        for (record, generation) in records.iter() {
            let (native, source) = record.parts();
            arena.put(Key { hash: record.hash(), native, source }, record.stack(), *generation);
        }
    }

    /// What a file knows to name stacks, if there is one.
    #[cfg(not(loom))]
    pub(super) fn noted(&self) -> Option<Arc<StackNotes>> {
        self.store().noted.clone()
    }

    /// The number of distinct stacks that are kept whole.
    pub(super) fn n_whole(&self) -> usize {
        self.store().n_whole
    }

    /// The number of records, those of short stacks included.
    pub(super) fn n_records(&self) -> usize {
        self.store().records.len()
    }

    /// The lock, which a fork holds.
    #[cfg(not(loom))]
    pub(crate) fn lock(&self) -> &Mutex<Store> {
        &self.store
    }

    fn store(&self) -> MutexGuard<'_, Store> {
        lock(&self.store)
    }
}

impl Store {
    fn has_room(&self, limit: usize) -> bool {
        self.n_whole < reserve::room(limit)
    }

    fn find(&self, key: Key<'_>) -> Option<StackId> {
        self.indexes.last()?.find(key).map(Record::stack)
    }

    fn add(&mut self, key: Key<'_>, generation: Generation, in_force: &AtomicPtr<Index>) -> StackId {
        let stack = StackId(self.records.len() as u32);
        let record = self.arena.put(key, stack, generation);
        self.records.push((record, generation));
        match self.indexes.last() {
            Some(index) if self.records.len() <= index.capacity() => index.add(record),
            _ => self.grow(),
        }
        in_force.store(self.index(), Ordering::Release);
        stack
    }

    /// Appends a larger index of all records. A panic before the last step leaves the smaller one in force, which
    /// lacks the newest record: its stack gets another number.
    fn grow(&mut self) {
        let index = Index::new((self.records.len() * if cfg!(loom) { 2 } else { 4 }).next_power_of_two());
        self.records.iter().for_each(|(record, _)| index.add(*record));
        self.indexes.push(Box::new(index));
    }

    fn index(&self) -> *mut Index {
        self.indexes.last().map_or(ptr::null_mut(), |index| ptr::from_ref(&**index).cast_mut())
    }
}
