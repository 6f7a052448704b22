//! The free blocks of one size or of similar sizes, in order.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;

use super::ids::BlockId;
use memreel_snapshot::words::Address;

/// The most blocks in a list. A larger bin becomes a tree, because moving the list's blocks would cost more than
/// walking a tree.
const MOST_IN_LIST: usize = 512;

/// A free block, ordered by size, then address. No two blocks have the same
/// address, so the number does not matter for the order.
#[derive(Clone, Copy, Debug)]
pub(super) struct Free {
    pub(super) bytes: u64,
    pub(super) address: Address,
    pub(super) id: BlockId,
}

/// Size and address in one number, so that a comparison needs no branch.
pub(super) type Key = u128;

#[inline]
pub(super) fn key(bytes: u64, address: Address) -> Key {
    Key::from(bytes) << 64 | Key::from(address.0)
}

impl Free {
    #[inline]
    fn key(&self) -> Key {
        key(self.bytes, self.address)
    }

    #[allow(clippy::cast_possible_truncation)]
    fn of((key, id): (&Key, &BlockId)) -> Free {
        Free { bytes: (key >> 64) as u64, address: Address(*key as u64), id: *id }
    }
}

/// The free blocks of one size, or of similar sizes.
#[derive(Debug)]
pub(super) enum Bin {
    /// In falling order: the first block is at the end, where best fit takes a
    /// block and usually puts it back.
    List(Vec<Free>),
    /// For bins with many blocks.
    Tree(BTreeMap<Key, BlockId>),
}

impl Default for Bin {
    fn default() -> Bin {
        Bin::List(Vec::new())
    }
}

/// Returns how many blocks of a list are at or after a key.
#[inline]
fn n_from(list: &[Free], key: Key) -> usize {
    match list.last() {
        Some(first) if first.key() < key => list.partition_point(|free| free.key() >= key),
        _ => list.len(),
    }
}

impl Bin {
    pub(super) fn is_empty(&self) -> bool {
        match self {
            Bin::List(list) => list.is_empty(),
            Bin::Tree(tree) => tree.is_empty(),
        }
    }

    pub(super) fn first(&self) -> Option<Free> {
        match self {
            Bin::List(list) => list.last().copied(),
            Bin::Tree(tree) => tree.first_key_value().map(Free::of),
        }
    }

    pub(super) fn last(&self) -> Option<Free> {
        match self {
            Bin::List(list) => list.first().copied(),
            Bin::Tree(tree) => tree.last_key_value().map(Free::of),
        }
    }

    pub(super) fn first_from(&self, key: Key) -> Option<Free> {
        match self {
            Bin::List(list) => list[..n_from(list, key)].last().copied(),
            Bin::Tree(tree) => tree.range(key..).next().map(Free::of),
        }
    }

    pub(super) fn last_below(&self, key: Key) -> Option<Free> {
        match self {
            Bin::List(list) => list.get(n_from(list, key)).copied(),
            Bin::Tree(tree) => tree.range(..key).next_back().map(Free::of),
        }
    }

    #[inline(always)]
    pub(super) fn insert(&mut self, free: Free) -> bool {
        if let Bin::List(list) = self
            && list.last().is_none_or(|first| free.key() < first.key())
            && list.len() < MOST_IN_LIST
        {
            list.push(free);
            return true;
        }
        self.insert_behind(free.key(), free.id)
    }

    /// Inserts a block that is not the first, or into a full list.
    #[inline(never)]
    fn insert_behind(&mut self, key: Key, id: BlockId) -> bool {
        if let Bin::List(list) = self
            && list.len() == MOST_IN_LIST
        {
            *self = Bin::Tree(list.iter().map(|free| (free.key(), free.id)).collect());
        }
        match self {
            Bin::List(list) => {
                let place = n_from(list, key);
                let is_new = place == 0 || list[place - 1].key() != key;
                list.insert(place, Free::of((&key, &id)));
                is_new
            }
            Bin::Tree(tree) => tree.insert(key, id).is_none(),
        }
    }

    #[inline]
    pub(super) fn remove(&mut self, key: Key) -> bool {
        match self {
            Bin::List(list) if list.last().is_some_and(|first| first.key() == key) => list.pop().is_some(),
            _ => self.remove_behind(key),
        }
    }

    /// Removes a block that is not the first of a list.
    #[inline(never)]
    fn remove_behind(&mut self, key: Key) -> bool {
        match self {
            Bin::List(list) => {
                let place = n_from(list, key);
                let was_there = place > 0 && list[place - 1].key() == key;
                if was_there {
                    list.remove(place - 1);
                }
                was_there
            }
            Bin::Tree(tree) => {
                let was_there = tree.remove(&key).is_some();
                // Far below the maximum, so that a bin does not alternate between the two forms.
                if tree.len() < MOST_IN_LIST / 4 {
                    *self = Bin::List(tree.iter().rev().map(Free::of).collect());
                }
                was_there
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn free(n: usize) -> Free {
        Free { bytes: 512, address: Address(512 * n as u64), id: BlockId::from_index(n) }
    }

    #[test]
    fn a_crowded_bin_is_a_tree_and_becomes_a_list_again() {
        let (mut bin, n) = (Bin::default(), MOST_IN_LIST + 1);
        assert!((1..=n).rev().all(|i| bin.insert(free(i))));
        assert!(matches!(bin, Bin::Tree(_)));
        assert!(!bin.insert(free(1)));
        for i in 1..n {
            assert_eq!(bin.first().map(|first| first.id), Some(BlockId::from_index(i)));
            assert!(bin.remove(free(i).key()));
            assert!(!bin.remove(free(i).key()));
        }
        assert!(matches!(bin, Bin::List(_)));
        assert_eq!(bin.last().map(|last| last.id), Some(BlockId::from_index(n)));
    }

    #[test]
    fn a_list_is_asked_between_its_blocks() {
        let mut bin = Bin::default();
        assert!([4, 2, 6].into_iter().all(|n| bin.insert(free(n))));
        let index = |found: Option<Free>| found.map(|free| free.address.0 / 512);
        for (n, from, below) in
            [(1, Some(2), None), (2, Some(2), None), (5, Some(6), Some(4)), (7, None, Some(6))]
        {
            assert_eq!(index(bin.first_from(free(n).key())), from);
            assert_eq!(index(bin.last_below(free(n).key())), below);
        }
    }
}
