//! Adding a stack that was never met: the one lock of this room.
//!
//! A stack is added once in a program's life, so this is the cold path. Those
//! files that are on the way of every capture name no lock, and a test reads
//! them for it; so it stands here.

use std::{
    ptr,
    sync::{
        PoisonError,
        atomic::{AtomicPtr, Ordering},
    },
};

use super::{
    TABLE_FULL,
    index::Index,
    interner::Key,
    record::{Arena, Record},
};
use crate::{
    event::StackId,
    sync::{Mutex, MutexGuard},
};

/// Stacks in the order of their numbers, and what finds them.
#[derive(Debug)]
pub(super) struct Inserter {
    limit: usize,
    store: Mutex<Store>,
}

#[derive(Debug)]
struct Store {
    arena: Arena,
    records: Vec<Record>,
    /// The last is in force; readers may still be in the others. Each is twice
    /// the one before, so all of them are no more than one again. Boxed, because
    /// readers hold their addresses.
    #[expect(clippy::vec_box, reason = "readers hold their addresses")]
    indexes: Vec<Box<Index>>,
    /// The record that stands for all further stacks, once there is one.
    full: Option<Record>,
}

/// What became of a stack.
#[derive(Clone, Copy, Debug)]
pub(super) enum Inserted {
    Kept(StackId),
    /// There is no room; this is the stack that says so.
    Refused(StackId),
}

impl Inserted {
    pub(super) fn stack(self) -> StackId {
        let (Inserted::Kept(stack) | Inserted::Refused(stack)) = self;
        stack
    }
}

impl Inserter {
    /// An inserter for at most `limit` stacks, and its first index, which lives as long.
    pub(super) fn new(limit: usize) -> (Inserter, *mut Index) {
        let store = Store {
            arena: Arena::default(),
            records: Vec::new(),
            indexes: vec![Box::new(Index::new(64))],
            full: None,
        };
        let index = store.index();
        (Inserter { limit, store: Mutex::new(store) }, index)
    }

    /// The number of a stack, which another thread may have added a moment
    /// ago. Where that takes a larger index, it is put into `in_force`.
    pub(super) fn insert(&self, key: Key<'_>, in_force: &AtomicPtr<Index>) -> Inserted {
        let mut store = self.store();
        if let Some(record) = store.indexes.last().and_then(|index| index.find(key)) {
            return Inserted::Kept(record.stack());
        }
        if store.records.len() >= self.limit {
            return Inserted::Refused(store.full(self.limit));
        }
        let stack = store.add(key);
        in_force.store(store.index(), Ordering::Release);
        Inserted::Kept(stack)
    }

    /// The record of a stack of this table.
    pub(super) fn record(&self, stack: StackId) -> Option<Record> {
        let store = self.store();
        let full = store.full.filter(|full| full.stack() == stack);
        store.records.get(stack.0 as usize).copied().or(full)
    }

    pub(super) fn n_stacks(&self) -> usize {
        self.store().records.len()
    }

    /// Nothing in here leaves the store half changed when it panics: what is
    /// added comes last.
    fn store(&self) -> MutexGuard<'_, Store> {
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Store {
    fn add(&mut self, key: Key<'_>) -> StackId {
        let stack = StackId(self.records.len() as u32);
        let record = self.arena.put(key, stack);
        self.records.push(record);
        match self.indexes.last() {
            Some(index) if self.records.len() <= index.capacity() => index.add(record),
            _ => self.grow(),
        }
        stack
    }

    /// A larger index, of all records.
    fn grow(&mut self) {
        let index = Index::new((self.records.len() * 4).next_power_of_two());
        for record in &self.records {
            index.add(*record);
        }
        self.indexes.push(Box::new(index));
    }

    /// The stack whose one frame says that there is no room for more. Its
    /// number is the first beyond the limit.
    fn full(&mut self, limit: usize) -> StackId {
        let key = Key { hash: 0, native: &[TABLE_FULL], source: &[] };
        self.full.get_or_insert_with(|| self.arena.put(key, StackId(limit as u32))).stack()
    }

    fn index(&self) -> *mut Index {
        self.indexes.last().map_or(ptr::null_mut(), |index| ptr::from_ref(&**index).cast_mut())
    }
}
