//! The address ranges of a simulated device that are handed out, and the gaps between them.

#![forbid(unsafe_code)]

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
};

/// Addresses are multiples of this, as a driver's are.
pub(super) const ALIGNMENT_BYTES: u64 = 2 << 20;

/// Ranges that are handed out, and gaps by size: a search that passed every range would make a run with many
/// segments quadratic.
#[derive(Debug)]
pub(super) struct Places {
    taken: BTreeMap<u64, u64>,
    n_bytes: u64,
    /// The addresses that are searched for gaps. A script may use others.
    all: Range<u64>,
    alignment: u64,
    /// The gaps within `all`, by start, with their ends.
    gaps: BTreeMap<u64, u64>,
    /// The starts of the gaps, by the binary logarithm of their sizes.
    by_size: [BTreeSet<u64>; 64],
}

/// Returns the size class of a number of bytes.
fn class(bytes: u64) -> usize {
    bytes.max(1).ilog2() as usize
}

impl Places {
    pub(super) fn new(all: Range<u64>, alignment: u64) -> Places {
        let (taken, gaps) = (BTreeMap::new(), BTreeMap::new());
        let by_size = [const { BTreeSet::new() }; 64];
        let mut places = Places { taken, n_bytes: 0, all: all.clone(), alignment, gaps, by_size };
        places.add_gap(all.start, all.end);
        places
    }

    pub(super) fn len(&self) -> usize {
        self.taken.len()
    }

    /// Returns the bytes that are handed out.
    pub(super) fn n_bytes(&self) -> u64 {
        self.n_bytes
    }

    /// Returns whether a range overlaps one that is handed out.
    pub(super) fn overlaps(&self, start: u64, bytes: u64) -> bool {
        let before = self.taken.range(..start.saturating_add(bytes)).next_back();
        before.is_some_and(|(at, len)| at + len > start)
    }

    /// Hands out a range that overlaps no other.
    pub(super) fn insert(&mut self, start: u64, bytes: u64) {
        self.taken.insert(start, bytes);
        self.n_bytes += bytes;
        let end = start.saturating_add(bytes);
        while let Some((from, to)) = self.gaps.range(..end).next_back().map(|(from, to)| (*from, *to))
            && to > start
        {
            self.remove_gap(from, to);
            self.add_gap(from, start);
            self.add_gap(end, to);
        }
    }

    /// Takes a range back and returns its size in bytes.
    pub(super) fn remove(&mut self, start: u64) -> Option<u64> {
        let bytes = self.taken.remove(&start)?;
        self.n_bytes -= bytes;
        let (mut from, mut to) = (start.max(self.all.start), (start + bytes).min(self.all.end));
        if from < to {
            let before = self.gaps.range(..from).next_back().map(|(from, to)| (*from, *to));
            if let Some((gap, end)) = before.filter(|(_, end)| *end == from) {
                self.remove_gap(gap, end);
                from = gap;
            }
            if let Some(end) = self.gaps.get(&to).copied() {
                self.remove_gap(to, end);
                to = end;
            }
            self.add_gap(from, to);
        }
        Some(bytes)
    }

    /// Returns the lowest free start; `None` if no gap is large enough.
    pub(super) fn lowest(&self, bytes: u64) -> Option<u64> {
        let place = |from: &u64| {
            let start = from.checked_next_multiple_of(self.alignment)?;
            (start.checked_add(bytes)? <= self.gaps[from]).then_some(start)
        };
        self.by_size[class(bytes)..].iter().filter_map(|gaps| gaps.iter().find_map(place)).min()
    }

    /// Returns the highest free start; `None` if no gap is large enough.
    pub(super) fn highest(&self, bytes: u64) -> Option<u64> {
        let place = |from: &u64| {
            let start = self.gaps[from].checked_sub(bytes)? / self.alignment * self.alignment;
            (start >= *from).then_some(start)
        };
        self.by_size[class(bytes)..].iter().filter_map(|gaps| gaps.iter().rev().find_map(place)).max()
    }

    fn add_gap(&mut self, from: u64, to: u64) {
        if from < to {
            self.gaps.insert(from, to);
            self.by_size[class(to - from)].insert(from);
        }
    }

    fn remove_gap(&mut self, from: u64, to: u64) {
        self.gaps.remove(&from);
        self.by_size[class(to - from)].remove(&from);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::testing::random::Random;

    /// Returns the first of these candidates that is a free start, trying each.
    fn first(places: &Places, bytes: u64, mut starts: impl Iterator<Item = u64>) -> Option<u64> {
        starts.find(|start| !places.overlaps(*start, bytes))
    }

    #[test]
    fn the_place_found_is_the_first_one() {
        for seed in 0..200 {
            let mut random = Random::new(seed);
            let mut places = Places::new(1000..10_000, 10);
            let mut live = Vec::new();
            for _ in 0..150 {
                if random.below(3) == 0 && !live.is_empty() {
                    let start = live.swap_remove(random.index(live.len()));
                    assert!(places.remove(start).is_some());
                    continue;
                }
                let bytes = 1 + random.below(60);
                let starts = (1000..=10_000 - bytes).filter(|start| start % 10 == 0);
                let (found, expected) = match seed % 2 {
                    0 => (places.lowest(bytes), first(&places, bytes, starts)),
                    _ => (places.highest(bytes), first(&places, bytes, starts.rev())),
                };
                assert_eq!(found, expected, "seed {seed}");
                let Some(start) = expected else { continue };
                places.insert(start, bytes);
                live.push(start);
            }
            live.iter().for_each(|start| assert!(places.remove(*start).is_some()));
            assert_eq!((places.gaps, places.n_bytes), (BTreeMap::from([(1000, 10_000)]), 0));
        }
    }

    #[test]
    fn a_script_takes_addresses_outside_the_search() {
        let mut places = Places::new(1000..2000, 10);
        places.insert(990, 30);
        places.insert(1990, 30);
        assert_eq!((places.lowest(10), places.highest(10)), (Some(1020), Some(1980)));
        assert_eq!((places.remove(990), places.remove(1990)), (Some(30), Some(30)));
        assert_eq!((places.lowest(10), places.highest(10)), (Some(1000), Some(1990)));
    }
}
