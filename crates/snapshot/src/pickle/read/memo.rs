//! The memo: values that a file stores under a number to use them again.

#![forbid(unsafe_code)]

use std::collections::BTreeMap;

use super::node::Item;

/// Numbered items. A number may be any of 32 bits; memory stays in proportion
/// to the number of puts.
#[derive(Debug, Default)]
pub(super) struct Memo {
    near: Vec<Item>,
    /// Numbers far beyond the count of puts; picklers never use them.
    /// A tree, whose memory is in proportion to its size whatever the file chooses.
    far: BTreeMap<u32, Item>,
    /// The count of numbers in use, which is the number that MEMOIZE assigns.
    n_taken: u32,
    /// The numbers that the current attempt has put, for [`Memo::rewind`].
    attempt: Vec<u32>,
    /// Whether a number was assigned a second time, so that its meaning depends on the place in the file.
    is_retaken: bool,
    /// Whether puts are ignored from now on.
    is_closed: bool,
}

impl Memo {
    /// Returns the bytes of memory that it takes.
    pub(super) fn n_bytes(&self) -> usize {
        self.near.len() * size_of::<Item>() + self.far.len() * 2 * size_of::<(u32, Item)>()
    }

    #[inline(always)]
    pub(super) fn get(&self, index: u32) -> Item {
        match self.near.get(index as usize) {
            Some(item) if *item != Item::Absent => *item,
            _ => self.get_far(index),
        }
    }

    #[cold]
    fn get_far(&self, index: u32) -> Item {
        self.far.get(&index).copied().unwrap_or_default()
    }

    /// Puts an item; returns whether the number was taken before.
    pub(super) fn put(&mut self, index: u32, item: Item) -> bool {
        let was_taken = self.get(index) != Item::Absent;
        self.is_retaken |= was_taken;
        self.n_taken += u32::from(!was_taken);
        if self.is_near(index) {
            self.grow(index);
            self.near[index as usize] = item;
        } else {
            self.far.insert(index, item);
        }
        was_taken
    }

    /// Closes the memo after the file's last byte, so that bytes can be read again with the same meaning of every
    /// number. Returns false if a number was assigned a second time.
    pub(super) fn close(&mut self) -> bool {
        self.is_closed = true;
        self.near.shrink_to_fit();
        !self.is_retaken
    }

    #[inline(always)]
    pub(super) fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// Puts an item under an unused number, so that [`Memo::rewind`] can undo it. `None` if the number is in use.
    #[inline]
    pub(super) fn attempt(&mut self, index: u32, item: Item) -> Option<()> {
        if self.is_closed {
            return Some(());
        }
        if index as usize == self.near.len() && self.far.is_empty() {
            self.near.push(item);
        } else if self.near.get(index as usize) == Some(&Item::Absent) && self.far.is_empty() {
            self.near[index as usize] = item;
        } else {
            return None;
        }
        self.attempt.push(index);
        self.n_taken += 1;
        Some(())
    }

    /// Returns whether the item of a number can be replaced by its decoded form.
    pub(super) fn can_refine(&self, index: u32, item: Item) -> bool {
        self.near.get(index as usize) == Some(&item)
    }

    /// Replaces an item by its decoded form.
    pub(super) fn refine(&mut self, index: u32, item: Item) {
        if let Some(near) = self.near.get_mut(index as usize) {
            *near = item;
        }
    }

    /// Returns the number that MEMOIZE assigns next: the count of numbers in use, as in CPython.
    #[inline]
    pub(super) fn next(&self) -> u32 {
        self.n_taken
    }

    /// Starts an attempt; what the last one put remains.
    #[inline]
    pub(super) fn begin(&mut self) {
        self.attempt.clear();
    }

    /// Undoes every [`Memo::attempt`] since [`Memo::begin`].
    pub(super) fn rewind(&mut self) {
        for index in self.attempt.drain(..) {
            self.near[index as usize] = Item::Absent;
            self.n_taken -= 1;
        }
    }

    fn is_near(&self, index: u32) -> bool {
        let index = index as usize;
        index < self.near.len() || index <= 2 * self.n_taken as usize + 1024
    }

    fn grow(&mut self, index: u32) {
        if index as usize >= self.near.len() {
            self.near.resize(index as usize + 1, Item::Absent);
        }
        if !self.far.is_empty() {
            self.far.remove(&index);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn far_numbers_cost_no_memory_and_are_found_again() {
        let mut memo = Memo::default();
        assert!(!memo.put(u32::MAX, Item::Int(1)));
        assert!(memo.put(u32::MAX, Item::Int(2)));
        assert!(memo.near.is_empty());
        assert_eq!((memo.get(u32::MAX), memo.get(7)), (Item::Int(2), Item::Absent));
    }

    #[test]
    fn a_far_number_that_comes_near_keeps_one_item() {
        let mut memo = Memo::default();
        memo.put(3000, Item::Int(1));
        (0..2999).for_each(|index| assert!(!memo.put(index, Item::None)));
        assert_eq!(memo.get(3000), Item::Int(1));
        assert!(memo.put(3000, Item::Int(2)), "it was taken");
        assert_eq!(memo.get(3000), Item::Int(2));
        assert_eq!(memo.next(), 3000);
    }
}
