//! Physical memory under a handle: its owner, what holds it, and which of its mappings counts which part.
#![forbid(unsafe_code)]

use std::{collections::BTreeMap, ops::Range};

/// The owner of physical memory.
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

/// Physical memory, which exists as long as anything holds it.
#[derive(Debug)]
pub(crate) struct Physical {
    pub(crate) owner: Owner,
    pub(crate) bytes: u64,
    /// How often the program has the handle.
    pub(crate) n_handles: u32,
    /// How often it is bound to a multicast object.
    pub(crate) n_bound: u32,
    /// The mappings, by the beginning of the part that each has and its address: the end of the part.
    mapped: BTreeMap<(u64, u64), u64>,
    /// The longest part that was ever mapped. A mapping that reaches into a range starts at most this far before it.
    longest_bytes: u64,
    /// The parts that are mapped, by their beginning: the end of each, and the address of the mapping that counts it.
    counted: BTreeMap<u64, (u64, u64)>,
    /// The bytes of these.
    counted_bytes: u64,
}

/// A part of a mapping, as a range of the physical memory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Piece {
    pub(crate) range: Range<u64>,
    /// Whether this mapping counts it, rather than another one.
    pub(crate) is_counted: bool,
}

impl Physical {
    pub(crate) fn new(owner: Owner, bytes: u64) -> Physical {
        let (mapped, counted) = (BTreeMap::new(), BTreeMap::new());
        Physical {
            owner,
            bytes,
            n_handles: 0,
            n_bound: 0,
            mapped,
            longest_bytes: 0,
            counted,
            counted_bytes: 0,
        }
    }

    /// Returns whether anything holds it.
    pub(crate) fn is_held(&self) -> bool {
        self.n_handles + self.n_bound > 0 || !self.mapped.is_empty()
    }

    /// Returns the bytes that mappings count.
    pub(crate) fn counted_bytes(&self) -> u64 {
        self.counted_bytes
    }

    /// Returns whether a mapping counts a part of a range.
    pub(crate) fn is_counted(&self, range: &Range<u64>) -> bool {
        self.counted_in(range).next().is_some()
    }

    /// Maps a range at an address. Returns the bytes that this mapping counts: those that no other does.
    pub(crate) fn map(&mut self, address: u64, range: &Range<u64>) -> u64 {
        self.mapped.insert((range.start, address), range.end);
        self.longest_bytes = self.longest_bytes.max(range.end - range.start);
        self.claim(address, range)
    }

    /// Ends the mapping of a range at an address. Returns the bytes that it counted; and the mappings that count some of these
    /// now, with their bytes.
    pub(crate) fn unmap(&mut self, address: u64, range: &Range<u64>) -> (u64, Vec<(u64, u64)>) {
        self.mapped.remove(&(range.start, address));
        let bytes = self.disclaim(address, range);
        if bytes == 0 {
            return (0, Vec::new());
        }
        let from = range.start.saturating_sub(self.longest_bytes);
        let near = self.mapped.range((from, 0)..(range.end, 0)).filter(|(_, end)| **end > range.start);
        let mut heirs: Vec<(u64, Range<u64>)> = near.map(|((start, at), end)| (*at, *start..*end)).collect();
        heirs.sort_unstable_by_key(|(at, _)| *at);
        let claims = heirs.into_iter().map(|(at, range)| (at, self.claim(at, &range)));
        (bytes, claims.filter(|(_, bytes)| *bytes > 0).collect())
    }

    /// Makes the mapping at an address count what no other counts in a range. Returns the bytes.
    fn claim(&mut self, address: u64, range: &Range<u64>) -> u64 {
        let mut free = Vec::new();
        let mut at = range.start;
        for (counted, _) in self.counted_in(range) {
            free.push(at..counted.start);
            at = counted.end;
        }
        free.push(at..range.end);
        free.retain(|range| !range.is_empty());
        self.counted.extend(free.iter().map(|free| (free.start, (free.end, address))));
        let bytes = free.iter().map(|free| free.end - free.start).sum();
        self.counted_bytes += bytes;
        bytes
    }

    /// Makes the mapping at an address, which has a range, stop counting. Returns the bytes that it counted.
    fn disclaim(&mut self, address: u64, range: &Range<u64>) -> u64 {
        let own: Vec<Range<u64>> =
            self.counted_in(range).filter(|(_, by)| *by == address).map(|(part, _)| part).collect();
        let bytes = own.iter().map(|part| part.end - part.start).sum();
        own.iter().for_each(|part| _ = self.counted.remove(&part.start));
        self.counted_bytes -= bytes;
        bytes
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

    /// Returns which parts of a range are counted, and by the mapping at which address.
    fn counted_in(&self, range: &Range<u64>) -> impl Iterator<Item = (Range<u64>, u64)> {
        let (start, end) = (range.start, range.end);
        // They are apart, so that the last one before the range alone may reach into it.
        let first = self.counted.range(..=start).next_back().map_or(start, |(from, _)| *from);
        let within = self.counted.range(first..end.max(first)).filter(move |(_, (to, _))| *to > start);
        within.map(move |(from, (to, by))| ((*from).max(start)..(*to).min(end), *by))
    }
}
