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
use super::noted::{AskLater, Noted};
use super::{
    index::Index,
    key::Key,
    limits::TABLE_FULL,
    modules::Generation,
    record::{Arena, Record},
};
use crate::process::sync::{AtomicPtr, Mutex, MutexGuard, lock};
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
    /// The last is in force; readers may still use the others. Each is twice as large
    /// as the one before, so the old ones together are no larger than the last. Boxed,
    /// because readers hold their addresses.
    #[expect(clippy::vec_box, reason = "readers hold their addresses")]
    indexes: Vec<Box<Index>>,
    /// The record that represents all refused stacks, once there are any.
    full: Option<Record>,
    #[cfg(not(loom))]
    noted: Option<Arc<Noted>>,
}

/// The outcome of an insertion.
#[derive(Clone, Copy, Debug)]
pub(super) enum Inserted {
    /// The stack is in the table under this number.
    Kept(StackId),
    /// The table is full; this number marks a full table.
    Refused(StackId),
}

impl Inserted {
    pub(super) fn stack(self) -> StackId {
        let (Inserted::Kept(stack) | Inserted::Refused(stack)) = self;
        stack
    }
}

impl Inserter {
    /// An inserter for at most `limit` stacks, and its first index, which lives as long as it.
    pub(super) fn new(limit: usize) -> (Inserter, *mut Index) {
        let store = Store {
            arena: Arena::default(),
            records: Vec::new(),
            indexes: vec![Box::new(Index::new(FIRST_SLOTS))],
            full: None,
            #[cfg(not(loom))]
            noted: None,
        };
        let index = store.index();
        (Inserter { limit, store: Mutex::new(store) }, index)
    }

    /// Returns the number of a stack, which another thread may have added a moment
    /// ago. When the index grows, the new one is stored in `in_force`.
    pub(super) fn insert(
        &self,
        key: Key<'_>,
        generation: Generation,
        in_force: &AtomicPtr<Index>,
    ) -> Inserted {
        let mut store = self.store();
        if let Some(record) = store.indexes.last().and_then(|index| index.find(key)) {
            return Inserted::Kept(record.stack());
        }
        if store.records.len() >= self.limit {
            return Inserted::Refused(store.full(self.limit));
        }
        let stack = store.add(key, generation);
        in_force.store(store.index(), Ordering::Release);
        Inserted::Kept(stack)
    }

    /// Returns the record of a stack of this table, and the generation in which it was noted.
    pub(super) fn record(&self, stack: StackId) -> Option<(Record, Generation)> {
        let store = self.store();
        let full = store.full.filter(|full| full.stack() == stack);
        let kept = store.records.get(stack.0 as usize).copied();
        kept.or_else(|| full.map(|full| (full, Generation::default())))
    }

    /// Writes stacks into a file from now on, first those that are known; `None` ends it.
    #[cfg(not(loom))]
    pub(super) fn set_file(&self, file: Option<(Arc<TapeFile>, AskLater)>) {
        let mut store = self.store();
        store.arena.set_file(file.as_ref().map(|(file, _)| file.clone()));
        store.noted = file.map(|(file, later)| Arc::new(Noted::new(file, later)));
        if store.noted.is_none() {
            return;
        }
        let Store { arena, records, full, .. } = &mut *store;
        for (record, generation) in
            records.iter().chain(full.map(|full| (full, Generation::default())).as_ref())
        {
            let (native, source) = record.parts();
            arena.put(Key { hash: record.hash(), native, source }, record.stack(), *generation);
        }
    }

    /// What a file knows to name stacks, if there is one.
    #[cfg(not(loom))]
    pub(super) fn noted(&self) -> Option<Arc<Noted>> {
        self.store().noted.clone()
    }

    /// The number of distinct stacks.
    pub(super) fn n_stacks(&self) -> usize {
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
    fn add(&mut self, key: Key<'_>, generation: Generation) -> StackId {
        let stack = StackId(self.records.len() as u32);
        let record = self.arena.put(key, stack, generation);
        self.records.push((record, generation));
        match self.indexes.last() {
            Some(index) if self.records.len() <= index.capacity() => index.add(record),
            _ => self.grow(),
        }
        stack
    }

    /// Appends a larger index of all records. A panic before the last step leaves the smaller one in force, which
    /// lacks the newest record: its stack gets another number.
    fn grow(&mut self) {
        let index = Index::new((self.records.len() * if cfg!(loom) { 2 } else { 4 }).next_power_of_two());
        self.records.iter().for_each(|(record, _)| index.add(*record));
        self.indexes.push(Box::new(index));
    }

    /// Returns the number of the stack whose one frame marks a full table: the first beyond the limit.
    fn full(&mut self, limit: usize) -> StackId {
        let key = Key { hash: 0, native: &[TABLE_FULL], source: &[] };
        let stack = StackId(limit as u32);
        self.full.get_or_insert_with(|| self.arena.put(key, stack, Generation::default())).stack()
    }

    fn index(&self) -> *mut Index {
        self.indexes.last().map_or(ptr::null_mut(), |index| ptr::from_ref(&**index).cast_mut())
    }
}
