//! Models of the table of stacks: its index, its growth and its arena.

use std::sync::Arc;

use memreel::integrate::Stacks;

use crate::{explore_with, spawn};

/// Two threads number the same stacks while the index is replaced by larger ones. Records and indexes carry marks
/// (`sync::NotAtomic`): loom fails if a reader could see one before it is written.
#[test]
fn threads_agree_on_the_numbers_of_stacks() {
    explore_with("stacks", Some(3), || {
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
    explore_with("found", Some(3), || {
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
    explore_with("full table", Some(3), || {
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
