//! The table of stacks: known ones are found without a lock, and a new one is added under the lock of `insert.rs`.

use std::sync::atomic::Ordering;

use super::{index::Index, insert::Inserter, key::Key, memory::Memory, record::Record};
use crate::sync::{AtomicPtr, AtomicU32, AtomicU64};

/// The number of no stack.
pub const NONE: u32 = u32::MAX;

/// Every distinct stack seen, up to a limit, by number. Stacks live as long as the table.
#[derive(Debug)]
pub struct Stacks<M: Memory> {
    /// Owned by `inserter`, which replaces it by a larger one and keeps the old one.
    index: AtomicPtr<Index>,
    inserter: Inserter<M>,
    /// The number of the stack that marks a table without room, once there is one.
    full: AtomicU32,
    /// Relaxed: a count, with which nothing else has to agree.
    n_refused: AtomicU64,
}

/// What a thread does to add a stack.
pub trait Adding {
    /// Notes what the names of a new stack's words need, under no lock of the table. Returns the generation of modules, which
    /// is kept with the stack.
    fn note(&self, key: Key<'_>) -> u32;

    /// Returns how many whole stacks this thread may fill in a table with room for `limit`.
    fn room(&self, limit: usize) -> usize;

    /// Returns the key of only the innermost words, which a full table keeps.
    fn shortened<'a>(&self, key: Key<'a>) -> Key<'a>;

    /// Returns the key of the stack that marks a table without room.
    fn full(&self) -> Key<'static>;
}

/// A stack of a table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stack<'a> {
    /// The return addresses, outermost first.
    pub native: &'a [usize],
    /// The words of another source of frames.
    pub source: &'a [usize],
    /// What [`Adding::note`] returned.
    pub generation: u32,
}

impl<M: Memory> Stacks<M> {
    /// Creates a table for at most `limit` distinct stacks.
    pub fn new(limit: usize, memory: M) -> Stacks<M> {
        let (inserter, index) = Inserter::new(limit, memory);
        Stacks {
            index: AtomicPtr::new(index),
            inserter,
            full: AtomicU32::new(NONE),
            n_refused: AtomicU64::new(0),
        }
    }

    /// Returns the number of a stack, if it is known.
    #[inline]
    pub fn known(&self, key: Key<'_>) -> Option<u32> {
        // SAFETY: `inserter` owns the index and drops none before itself.
        let index = unsafe { &*self.index.load(Ordering::Acquire) };
        index.find(key).map(Record::stack)
    }

    /// Adds a stack and returns its number. A full table counts the stack and returns the number of the shortened one; once it
    /// has no room for these, it returns the number of [`Adding::full`].
    #[cold]
    #[inline(never)]
    pub fn insert(&self, key: Key<'_>, adding: &impl Adding) -> u32 {
        if self.inserter.has_room(|limit| adding.room(limit)) {
            let generation = adding.note(key);
            let room = |limit| adding.room(limit);
            if let Some(stack) = self.inserter.insert(key, generation, room, &self.index) {
                return stack;
            }
        }
        self.n_refused.fetch_add(1, Ordering::Relaxed);
        let short = adding.shortened(key);
        let insert = || {
            let full = self.full.load(Ordering::Acquire);
            if full != NONE {
                return full;
            }
            let generation = adding.note(short);
            self.inserter.insert_short(short, generation, &self.index).unwrap_or_else(|| {
                let full = self.inserter.full(adding.full(), &self.index);
                self.full.store(full, Ordering::Release);
                full
            })
        };
        self.known(short).unwrap_or_else(insert)
    }

    /// Whether this is the number of a stack that is kept, whole or short, not the one that marks a table without room.
    #[inline]
    pub fn is_kept(&self, stack: u32) -> bool {
        // Relaxed: a thread that was given the mark's number has loaded or stored it itself before.
        self.full.load(Ordering::Relaxed) != stack
    }

    /// Returns a stack by its number.
    pub fn stack(&self, stack: u32) -> Option<Stack<'_>> {
        let (record, generation) = self.inserter.record(stack)?;
        let (native, source) = record.parts();
        Some(Stack { native, source, generation })
    }

    /// Changes where new stacks are. If `change` returns true, those that exist are copied there.
    pub fn change_memory(&self, change: impl FnOnce(&mut M) -> bool) {
        self.inserter.change_memory(change);
    }

    /// Calls `look` with the memory, under the table's lock.
    pub fn with_memory<T>(&self, look: impl FnOnce(&M) -> T) -> T {
        self.inserter.with_memory(look)
    }

    pub(super) fn inserter(&self) -> &Inserter<M> {
        &self.inserter
    }

    /// Returns the number of distinct stacks that are kept whole.
    pub fn n_whole(&self) -> usize {
        self.inserter.n_whole()
    }

    /// Returns the number of stacks, the short ones included.
    pub fn n_stacks(&self) -> usize {
        self.inserter.n_records()
    }

    /// Returns the number of captures that found the table full.
    pub fn n_refused(&self) -> u64 {
        self.n_refused.load(Ordering::Relaxed)
    }
}
