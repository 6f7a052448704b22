//! Physical memory under a handle: whose it is, what holds it, and which of its mappings counts which part.
#![forbid(unsafe_code)]

use std::{collections::BTreeMap, ops::Range};

/// What physical memory is of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Owner {
    /// A device, which has this number.
    Device(i32),
    /// The host.
    Host,
    /// Another process, on a device of this number; without one, on the host.
    Other(Option<i32>),
    /// No device: a multicast object, whose addresses reach the memory that is bound to it.
    Multicast,
}

/// Physical memory. It exists as long as anything holds it.
#[derive(Debug)]
pub(crate) struct Physical {
    pub(crate) owner: Owner,
    pub(crate) bytes: u64,
    /// How often the program has the handle.
    pub(crate) n_handles: u32,
    /// How often it is mapped.
    pub(crate) n_mapped: u32,
    /// How often it is bound to a multicast object.
    pub(crate) n_bound: u32,
    /// The parts that are mapped, by their beginning: the end of each, and the address of the mapping that counts it.
    counted: BTreeMap<u64, (u64, u64)>,
}

/// A part of a mapping, as a range of the physical memory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Piece {
    pub(crate) range: Range<u64>,
    /// Whether this mapping counts it, and not another one.
    pub(crate) is_counted: bool,
}

impl Physical {
    pub(crate) fn new(owner: Owner, bytes: u64) -> Physical {
        Physical { owner, bytes, n_handles: 0, n_mapped: 0, n_bound: 0, counted: BTreeMap::new() }
    }

    /// Returns whether anything holds it.
    pub(crate) fn is_held(&self) -> bool {
        self.n_handles + self.n_mapped + self.n_bound > 0
    }

    /// Returns the bytes that mappings count.
    pub(crate) fn counted_bytes(&self) -> u64 {
        self.counted.iter().map(|(from, (to, _))| to - from).sum()
    }

    /// Returns whether a mapping counts a part of a range.
    pub(crate) fn is_counted(&self, range: &Range<u64>) -> bool {
        self.counted_in(range).next().is_some()
    }

    /// Has the mapping at an address count what no other counts of a range. Returns the bytes.
    pub(crate) fn claim(&mut self, address: u64, range: &Range<u64>) -> u64 {
        let mut free = Vec::new();
        let mut at = range.start;
        for (counted, _) in self.counted_in(range) {
            free.push(at..counted.start);
            at = counted.end;
        }
        free.push(at..range.end);
        free.retain(|range| !range.is_empty());
        self.counted.extend(free.iter().map(|free| (free.start, (free.end, address))));
        free.iter().map(|free| free.end - free.start).sum()
    }

    /// Has the mapping at an address count nothing any more. Returns the bytes that it counted.
    pub(crate) fn disclaim(&mut self, address: u64) -> u64 {
        let before = self.counted_bytes();
        self.counted.retain(|_, (_, by)| *by != address);
        before - self.counted_bytes()
    }

    /// Returns the pieces of the mapping at an address, which has a range.
    pub(crate) fn pieces(&self, address: u64, range: &Range<u64>) -> Vec<Piece> {
        let mut pieces: Vec<Piece> = Vec::new();
        for (range, by) in self.counted_in(range) {
            let is_counted = by == address;
            match pieces.last_mut() {
                Some(last) if last.is_counted == is_counted => last.range.end = range.end,
                _ => pieces.push(Piece { range, is_counted }),
            }
        }
        pieces
    }

    /// Returns what of a range is counted, and by the mapping at which address.
    fn counted_in(&self, range: &Range<u64>) -> impl Iterator<Item = (Range<u64>, u64)> {
        let (start, end) = (range.start, range.end);
        let before_end = self.counted.range(..end).filter(move |(_, (to, _))| *to > start);
        before_end.map(move |(from, (to, by))| ((*from).max(start)..(*to).min(end), *by))
    }
}
