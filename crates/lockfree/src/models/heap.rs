//! Models of the table of the heap's blocks: its locks, its sieve, and a dump beside threads that change it.

#![forbid(unsafe_code)]

use std::sync::Arc;

use loom::sync::atomic::{AtomicU64, Ordering};

use super::{explore, spawn};
use crate::{
    heap::{Inserted, Table},
    testing::{Map, Yields},
};

/// A table of two shards, in which all blocks of a shard have the same hash.
#[derive(Debug, Default)]
struct LiveBlocks(Table<Map, Yields>);

impl LiveBlocks {
    /// Adds a block; returns whether none was at its address.
    fn insert(&self, address: u64, bytes: u64) -> bool {
        self.0.lock(address).unwrap().insert((address, bytes)) == Inserted::New
    }

    /// Removes the block at an address; returns its bytes.
    fn remove(&self, address: u64) -> Option<u64> {
        Some(self.0.lock(address).unwrap().remove(address)?.1)
    }

    fn may_have(&self, address: u64) -> bool {
        self.0.may_have(address)
    }

    /// Returns the blocks twice: those at the mark, read while all shards were locked, and those in the copy.
    fn dump(&self) -> [Vec<(u64, u64)>; 2] {
        let (dump, mut all) = self.0.begin_dump().zip(self.0.lock_all()).unwrap();
        all.mark(&dump);
        let mut at_mark: Vec<_> = all.shards().flat_map(Map::iter).collect();
        drop(all);
        let mut copied = Vec::new();
        assert!(dump.each_block(|block| copied.push(block)));
        at_mark.sort_unstable();
        copied.sort_unstable();
        [at_mark, copied]
    }
}

/// Addresses of one page are in one shard.
const PAGE: u64 = 0x1000;
/// A page of the other shard.
const OTHER_PAGE: u64 = 0x5000;

#[test]
fn a_shard_is_changed_by_one_thread_at_a_time() {
    explore("shard", || {
        let table = Arc::new(LiveBlocks::default());
        let theirs = table.clone();
        let thread = spawn(move || {
            assert!(theirs.insert(PAGE + 16, 1));
            assert_eq!(theirs.remove(PAGE + 16), Some(1));
        });
        assert!(table.insert(PAGE + 32, 2));
        assert_eq!(table.remove(PAGE + 32), Some(2));
        assert!(table.insert(PAGE + 48, 3));
        thread.join().unwrap();
        assert_eq!(table.dump()[0], [(PAGE + 48, 3)]);
    });
}

#[test]
fn a_block_that_was_handed_on_is_not_sieved_out() {
    explore("sieve", || {
        let table = Arc::new(LiveBlocks::default());
        let handed = Arc::new(AtomicU64::new(0));
        let (theirs, handed_too) = (table.clone(), handed.clone());
        let frees = spawn(move || {
            let address = handed_too.load(Ordering::Acquire);
            if address != 0 {
                assert!(theirs.may_have(address), "its inserter counted it before");
                assert_eq!(theirs.remove(address), Some(1));
            }
            address
        });
        let theirs = table.clone();
        let changes = spawn(move || {
            // Of the same hash.
            assert!(theirs.insert(PAGE + 32, 2));
            assert_eq!(theirs.remove(PAGE + 32), Some(2));
        });
        assert!(table.insert(PAGE + 16, 1));
        handed.store(PAGE + 16, Ordering::Release);
        let freed = frees.join().unwrap();
        changes.join().unwrap();
        assert_eq!(table.may_have(PAGE + 16), freed == 0, "the sieve counts every block once");
    });
}

/// A thread moves a block from one shard to the other while the shards are copied one after the other.
#[test]
fn a_dump_is_of_the_moment_of_its_mark() {
    explore("dump", || {
        let table = Arc::new(LiveBlocks::default());
        assert!(table.insert(PAGE, 1));
        let theirs = table.clone();
        let thread = spawn(move || {
            assert!(theirs.insert(OTHER_PAGE, 2));
            assert_eq!(theirs.remove(PAGE), Some(1));
        });
        let [at_mark, copied] = table.dump();
        assert_eq!(copied, at_mark);
        let moments = [vec![(PAGE, 1)], vec![(PAGE, 1), (OTHER_PAGE, 2)], vec![(OTHER_PAGE, 2)]];
        assert!(moments.contains(&at_mark), "{at_mark:?}");
        thread.join().unwrap();
        assert_eq!(table.dump()[1], [(OTHER_PAGE, 2)]);
    });
}

/// The second takes the turn, and marks, after the first has copied.
#[test]
fn dumps_come_one_after_the_other() {
    explore("two dumps", || {
        let table = Arc::new(LiveBlocks::default());
        let theirs = table.clone();
        let thread = spawn(move || {
            assert!(theirs.insert(PAGE, 1));
            let [at_mark, copied] = theirs.dump();
            assert_eq!(copied, at_mark);
        });
        let [at_mark, copied] = table.dump();
        assert_eq!(copied, at_mark);
        thread.join().unwrap();
    });
}
