//! A bounded queue of the newest entries, with a count of the dropped ones.
#![forbid(unsafe_code)]

use std::collections::VecDeque;

/// A bounded queue that drops its oldest entry when it is full. It grows as it fills, so a large capacity costs nothing
/// until it is used.
///
/// PyTorch's ring loses its order when it is resized (docs/snapshot-format.md 2.5);
/// this one keeps the newest entries in order when its capacity changes.
#[derive(Debug)]
pub struct Ring<T> {
    entries: VecDeque<T>,
    capacity: usize,
    n_lost: u64,
}

impl<T> Ring<T> {
    /// Creates an empty ring; a capacity of 0 is taken as 1.
    pub fn new(capacity: usize) -> Ring<T> {
        Ring { entries: VecDeque::new(), capacity: capacity.max(1), n_lost: 0 }
    }

    /// Adds an entry.
    pub fn push(&mut self, entry: T) {
        if self.entries.len() == self.capacity {
            self.entries.pop_front();
            self.n_lost += 1;
        }
        self.entries.push_back(entry);
    }

    /// Changes the capacity and keeps the newest entries that fit.
    pub fn set_capacity(&mut self, capacity: usize) {
        self.capacity = capacity.max(1);
        let n_over = self.entries.len().saturating_sub(self.capacity);
        self.entries.drain(..n_over);
        self.n_lost += n_over as u64;
    }

    /// Removes all entries, resets the count of lost ones and frees the memory.
    pub fn clear(&mut self) {
        self.entries = VecDeque::new();
        self.n_lost = 0;
    }

    /// Iterates over the entries, oldest first.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &T> {
        self.entries.iter()
    }

    /// Returns how many entries were dropped since the ring was last cleared.
    pub fn n_lost(&self) -> u64 {
        self.n_lost
    }
}

#[cfg(all(test, not(memreel_loom)))]
mod tests {
    use super::*;

    fn of(capacity: usize, entries: std::ops::Range<u32>) -> Ring<u32> {
        let mut ring = Ring::new(capacity);
        entries.for_each(|entry| ring.push(entry));
        ring
    }

    fn seen(ring: &Ring<u32>) -> (Vec<u32>, u64) {
        (ring.iter().copied().collect(), ring.n_lost())
    }

    #[test]
    fn six_into_four_keeps_the_newest_in_order() {
        assert_eq!(seen(&of(4, 0..6)), (vec![2, 3, 4, 5], 2));
    }

    #[test]
    fn growing_after_the_wrap_keeps_order() {
        let mut ring = of(4, 0..6);
        ring.set_capacity(8);
        (6..8).for_each(|entry| ring.push(entry));
        assert_eq!(seen(&ring), (vec![2, 3, 4, 5, 6, 7], 2));
    }

    #[test]
    fn shrinking_keeps_the_newest_and_counts_the_rest() {
        let mut ring = of(8, 0..6);
        ring.set_capacity(2);
        assert_eq!(seen(&ring), (vec![4, 5], 4));
        (6..9).for_each(|entry| ring.push(entry));
        assert_eq!(seen(&ring), (vec![7, 8], 7));
    }

    #[test]
    fn a_ring_has_at_least_one_place() {
        assert_eq!(seen(&of(0, 0..3)), (vec![2], 2));
        let mut ring = of(3, 0..3);
        ring.set_capacity(0);
        assert_eq!(seen(&ring), (vec![2], 2));
    }
}
