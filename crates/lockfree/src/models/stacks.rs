//! Models of the table of stacks: its index, its growth and its arena.

#![forbid(unsafe_code)]

use std::sync::Arc;

use super::{explore, spawn};
use crate::stacks::{self, Adding, HeapChunk, Key, Memory};

/// Memory on the heap.
#[derive(Debug)]
struct Heap;

impl Memory for Heap {
    type Chunk = HeapChunk;

    fn chunk(&mut self) -> HeapChunk {
        HeapChunk::default()
    }

    fn may_write(&self, _: &HeapChunk) -> bool {
        true
    }
}

/// Adds stacks that need no names.
struct Plainly;

impl Adding for Plainly {
    fn note(&self, _: Key<'_>) -> u32 {
        0
    }

    fn room(&self, limit: usize) -> usize {
        limit
    }

    fn shortened<'a>(&self, key: Key<'a>) -> Key<'a> {
        key_of(&key.native[key.native.len().saturating_sub(3)..])
    }

    fn full(&self) -> Key<'static> {
        key_of(&[1])
    }
}

/// All stacks have the same hash, so that a search goes past the others.
fn key_of(native: &[usize]) -> Key<'_> {
    Key { hash: 0, native, source: &[] }
}

struct Stacks(stacks::Stacks<Heap>);

impl Stacks {
    fn new(limit: usize) -> Stacks {
        Stacks(stacks::Stacks::new(limit, Heap))
    }

    fn number(&self, words: &[usize]) -> u32 {
        let key = key_of(words);
        self.0.known(key).unwrap_or_else(|| self.0.insert(key, &Plainly))
    }

    fn addresses(&self, stack: u32) -> Vec<usize> {
        self.0.stack(stack).unwrap().native.to_vec()
    }

    /// Returns the number of whole stacks, and how many were refused.
    fn counts(&self) -> (usize, u64) {
        (self.0.n_whole(), self.0.n_refused())
    }
}

/// Two threads number the same stacks while the index is replaced by larger ones. Records and indexes carry marks
/// ([`NotAtomic`](crate::sync::NotAtomic)): loom fails if a reader could see one before it is written.
#[test]
fn threads_agree_on_the_numbers_of_stacks() {
    explore("stacks", || {
        let stacks = Arc::new(Stacks::new(100));
        let theirs = stacks.clone();
        let thread = spawn(move || {
            let numbers = [3, 1].map(|word| theirs.number(&[word, 7]));
            assert_eq!(theirs.addresses(numbers[0]), [3, 7]);
            numbers
        });
        let own = [1, 2, 3].map(|word| stacks.number(&[word, 7]));
        let theirs = thread.join().unwrap();
        assert_eq!(theirs, [own[2], own[0]]);
        for (stack, word) in own.into_iter().zip(1..) {
            assert_eq!(stacks.addresses(stack), [word, 7]);
        }
        assert_eq!(stacks.counts(), (3, 0));
    });
}

/// A thread may find a record between its addition to the index and the end of the other thread's turn.
#[test]
fn a_stack_is_found_while_another_thread_adds_it() {
    explore("found", || {
        let stacks = Arc::new(Stacks::new(100));
        let theirs = stacks.clone();
        let thread = spawn(move || theirs.number(&[5, 7]));
        let own = stacks.number(&[5, 7]);
        assert_eq!(thread.join().unwrap(), own);
        assert_eq!(stacks.counts(), (1, 0));
    });
}

#[test]
fn a_full_table_of_stacks_keeps_what_is_short() {
    explore("full table", || {
        let stacks = Arc::new(Stacks::new(1));
        let theirs = stacks.clone();
        let thread = spawn(move || theirs.number(&[5]));
        let own = [stacks.number(&[6]), stacks.number(&[6])];
        let theirs = thread.join().unwrap();
        assert_eq!(own[0], own[1]);
        assert_eq!((stacks.addresses(own[0]), stacks.addresses(theirs)), (vec![6], vec![5]));
        assert_eq!(stacks.counts(), (1, 1), "the other one found the table full");
    });
}
