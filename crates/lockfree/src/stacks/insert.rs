//! Adds new stacks, under the one lock on the way of a capture.
//!
//! A stack is added once in the life of a table, so this is the cold path. The files on the way of every capture must not
//! name a lock, and a test reads them for it; so the lock has a file of its own.
#![forbid(unsafe_code)]

use std::{ptr, sync::atomic::Ordering};

use super::{arena::Arena, index::Index, key::Key, memory::Memory, record::Record};
use crate::sync::{AtomicPtr, Mutex, MutexGuard, lock};

/// The slots of the first index; few under loom, so that the index grows within a model.
const FIRST_SLOTS: usize = if cfg!(memreel_loom) { 2 } else { 64 };

/// Adds stacks, one thread at a time.
#[derive(Debug)]
pub(super) struct Inserter<M: Memory> {
    limit: usize,
    store: Mutex<Store<M>>,
}

/// The stacks in the order of their numbers, and the indexes that find them.
#[derive(Debug)]
pub(super) struct Store<M: Memory> {
    arena: Arena<M>,
    /// Each record with the generation of modules in which its stack was noted. One list, so that a panic in between
    /// cannot leave one of the two without the other.
    records: Vec<(Record, u32)>,
    /// How many of them are whole stacks.
    n_whole: usize,
    /// The last is in force; readers may still use the others. Each is twice as large
    /// as the one before, so the old ones together are no larger than the last. Boxed,
    /// because readers hold their addresses.
    #[expect(clippy::vec_box, reason = "readers hold their addresses")]
    indexes: Vec<Box<Index>>,
}

impl<M: Memory> Inserter<M> {
    /// An inserter for at most `limit` stacks, and its first index, which lives as long as it.
    pub(super) fn new(limit: usize, memory: M) -> (Inserter<M>, *mut Index) {
        let store = Store {
            arena: Arena::new(memory),
            records: Vec::new(),
            n_whole: 0,
            indexes: vec![Box::new(Index::new(FIRST_SLOTS))],
        };
        let index = store.index();
        (Inserter { limit, store: Mutex::new(store) }, index)
    }

    /// Returns the number of a stack, which another thread may have added a moment
    /// ago; `None` if the table is full (see [`Inserter::has_room`]). When the index grows, the new one is stored in `in_force`.
    pub(super) fn insert(
        &self,
        key: Key<'_>,
        generation: u32,
        room: impl FnOnce(usize) -> usize,
        in_force: &AtomicPtr<Index>,
    ) -> Option<u32> {
        let mut store = self.store();
        store.find(key).or_else(|| {
            (store.n_whole < room(self.limit)).then(|| {
                store.n_whole += 1;
                store.add(key, generation, in_force)
            })
        })
    }

    /// Whether the table has room for a whole stack: fewer are in it than `room` returns of the limit.
    pub(super) fn has_room(&self, room: impl FnOnce(usize) -> usize) -> bool {
        self.store().n_whole < room(self.limit)
    }

    /// Returns the number of a short stack of a full table, which has room for as many as for whole ones; `None` if there
    /// is none left.
    pub(super) fn insert_short(
        &self,
        key: Key<'_>,
        generation: u32,
        in_force: &AtomicPtr<Index>,
    ) -> Option<u32> {
        let mut store = self.store();
        let has_room = store.records.len() - store.n_whole < self.limit;
        store.find(key).or_else(|| has_room.then(|| store.add(key, generation, in_force)))
    }

    /// Returns the number of the stack that marks a table without room.
    pub(super) fn full(&self, full: Key<'_>, in_force: &AtomicPtr<Index>) -> u32 {
        let mut store = self.store();
        store.find(full).unwrap_or_else(|| store.add(full, 0, in_force))
    }

    /// Returns the record of a stack of this table, and the generation in which it was noted.
    pub(super) fn record(&self, stack: u32) -> Option<(Record, u32)> {
        self.store().records.get(stack as usize).copied()
    }

    /// Changes where new records are. If `change` returns true, those that exist are copied there.
    pub(super) fn change_memory(&self, change: impl FnOnce(&mut M) -> bool) {
        let mut store = self.store();
        let Store { arena, records, .. } = &mut *store;
        if arena.change_memory(change) {
            for (record, generation) in records.iter() {
                let (native, source) = record.parts();
                arena.put(Key { hash: record.hash(), native, source }, record.stack(), *generation);
            }
        }
    }

    /// Calls `look` with the memory.
    pub(super) fn with_memory<T>(&self, look: impl FnOnce(&M) -> T) -> T {
        look(self.store().arena.memory())
    }

    /// The number of distinct stacks that are kept whole.
    pub(super) fn n_whole(&self) -> usize {
        self.store().n_whole
    }

    /// The number of records, those of short stacks included.
    pub(super) fn n_records(&self) -> usize {
        self.store().records.len()
    }

    /// Returns the lock, which a fork holds.
    pub(super) fn mutex(&self) -> &Mutex<Store<M>> {
        &self.store
    }

    fn store(&self) -> MutexGuard<'_, Store<M>> {
        lock(&self.store)
    }
}

impl<M: Memory> Store<M> {
    fn find(&self, key: Key<'_>) -> Option<u32> {
        self.indexes.last()?.find(key).map(Record::stack)
    }

    fn add(&mut self, key: Key<'_>, generation: u32, in_force: &AtomicPtr<Index>) -> u32 {
        let stack = self.records.len() as u32;
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
        let index =
            Index::new((self.records.len() * if cfg!(memreel_loom) { 2 } else { 4 }).next_power_of_two());
        self.records.iter().for_each(|(record, _)| index.add(*record));
        self.indexes.push(Box::new(index));
    }

    fn index(&self) -> *mut Index {
        self.indexes.last().map_or(ptr::null_mut(), |index| ptr::from_ref(&**index).cast_mut())
    }
}
