//! A trace under short names, as PyTorch's tool prints it, with its errors or without (snapshot-format.md 4.3).

use std::{collections::BTreeMap, fmt};

use rustc_hash::FxHashMap;

use crate::{
    event::{Action, DeviceId},
    snapshot::{Snapshot, TraceEntry},
};

/// How blocks and segments get their names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Naming {
    /// A name is free again when its block or segment is; what is freed twice has none.
    Recycled,
    /// As PyTorch's tool does it: names are never free again, and freed segments keep their addresses.
    PyTorch,
}

/// The number of a name: a to z, then a1 to z1, and so on.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Name(pub u32);

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let letter = char::from(b'a' + u8::try_from(self.0 % 26).unwrap_or(0));
        match self.0 / 26 {
            0 => write!(f, "{letter}"),
            round => write!(f, "{letter}{round}"),
        }
    }
}

/// Where a block lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Home {
    /// In a segment of the trace, so many bytes after its beginning.
    Traced(Name, u64),
    /// In the snapshot's segment of that number, so many bytes after its beginning.
    Final(usize, u64),
    /// In none that is known.
    Unknown,
}

/// An entry with the name of its block or segment.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Line<'a> {
    /// The entry.
    pub entry: &'a TraceEntry,
    /// The name that it gives, uses or frees; `None` if there is none at its address.
    pub name: Option<Name>,
    /// Where an allocated block lies; [`Home::Unknown`] for every other entry.
    pub home: Home,
}

/// Names the entries of a device's trace one by one.
pub fn lines(snapshot: &Snapshot, device: DeviceId, naming: Naming) -> impl Iterator<Item = Line<'_>> {
    let entries = snapshot.trace(device);
    let mut names = Names::new(snapshot, device, naming);
    entries.iter().map(move |entry| names.line(entry))
}

#[derive(Debug)]
struct Names {
    naming: Naming,
    next: u32,
    free: Vec<Name>,
    blocks: FxHashMap<u64, Name>,
    segments: FxHashMap<u64, Name>,
    traced: Cover<Name>,
    finals: Cover<usize>,
}

impl Names {
    fn new(snapshot: &Snapshot, device: DeviceId, naming: Naming) -> Names {
        let mut finals = Cover::default();
        for (index, segment) in snapshot.segments.iter().enumerate() {
            match naming {
                // The tool looks in the segments of every device, as far as they are allocated.
                Naming::PyTorch => finals.add(segment.address, segment.allocated_size, index),
                Naming::Recycled if segment.device == device => {
                    finals.add(segment.address, segment.total_size, index);
                }
                Naming::Recycled => {}
            }
        }
        Names {
            naming,
            next: 0,
            free: Vec::new(),
            blocks: FxHashMap::default(),
            segments: FxHashMap::default(),
            traced: Cover::default(),
            finals,
        }
    }

    fn line<'a>(&mut self, entry: &'a TraceEntry) -> Line<'a> {
        let TraceEntry { address, size, .. } = *entry;
        let mut home = Home::Unknown;
        let name = match entry.action {
            Some(Action::Alloc) => {
                home = self.home(address);
                let name = self.name();
                self.blocks.insert(address, name);
                Some(name)
            }
            Some(Action::FreeRequested | Action::Annotate) => self.blocks.get(&address).copied(),
            Some(Action::FreeCompleted) => self.free_block(address),
            Some(Action::SegmentAlloc) => {
                let name = self.name();
                if self.naming == Naming::Recycled {
                    self.traced.remove(address, size);
                }
                self.traced.add(address, size, name);
                self.segments.insert(address, name);
                Some(name)
            }
            Some(Action::SegmentFree) => self.free_segment(address, size),
            _ => None,
        };
        Line { entry, name, home }
    }

    fn name(&mut self) -> Name {
        self.free.pop().unwrap_or_else(|| {
            self.next += 1;
            Name(self.next - 1)
        })
    }

    fn free_block(&mut self, address: u64) -> Option<Name> {
        if self.naming == Naming::PyTorch {
            return self.blocks.get(&address).copied();
        }
        let name = self.blocks.remove(&address);
        self.free.extend(name);
        name
    }

    fn free_segment(&mut self, address: u64, size: u64) -> Option<Name> {
        if self.naming == Naming::PyTorch {
            return self.segments.get(&address).copied();
        }
        self.traced.remove(address, size);
        let name = self.segments.remove(&address);
        self.free.extend(name);
        name
    }

    fn home(&self, address: u64) -> Home {
        if let Some((name, offset)) = self.traced.at(address) {
            return Home::Traced(name, offset);
        }
        self.finals.at(address).map_or(Home::Unknown, |(index, offset)| Home::Final(index, offset))
    }
}

/// Which range covers an address: of several the one that was added first.
///
/// The tool asks each range in turn, which is the same and quadratic. Here a
/// new range takes only the gaps that earlier ones left.
#[derive(Debug)]
struct Cover<T>(BTreeMap<u64, Piece<T>>);

/// A piece of a range, without its beginning.
#[derive(Clone, Copy, Debug)]
struct Piece<T> {
    end: u64,
    /// Where the whole range begins.
    range: u64,
    owner: T,
}

impl<T> Default for Cover<T> {
    fn default() -> Cover<T> {
        Cover(BTreeMap::new())
    }
}

impl<T: Copy> Cover<T> {
    fn add(&mut self, range: u64, size: u64, owner: T) {
        let end = range.saturating_add(size);
        let mut start = range;
        if let Some((_, piece)) = self.0.range(..=range).next_back() {
            start = start.max(piece.end);
        }
        while start < end {
            let next = self.0.range(start..end).next().map(|(at, piece)| (*at, piece.end));
            let (gap_end, resume) = next.unwrap_or((end, end));
            if start < gap_end {
                self.0.insert(start, Piece { end: gap_end, range, owner });
            }
            start = resume;
        }
    }

    /// Takes away every piece that begins within a range.
    fn remove(&mut self, range: u64, size: u64) {
        let starts: Vec<u64> = self.0.range(range..range.saturating_add(size)).map(|(at, _)| *at).collect();
        for start in starts {
            self.0.remove(&start);
        }
    }

    fn at(&self, address: u64) -> Option<(T, u64)> {
        let (_, piece) = self.0.range(..=address).next_back()?;
        (address < piece.end).then(|| (piece.owner, address - piece.range))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_the_alphabet() {
        let texts = [0, 25, 26, 27, 52].map(|n| Name(n).to_string());
        assert_eq!(texts, ["a", "z", "a1", "b1", "a2"]);
    }

    #[test]
    fn the_first_range_covers() {
        let mut state = 7_u64;
        let mut random = |limit: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % limit
        };
        for _ in 0..300 {
            let ranges: Vec<(u64, u64)> = (0..8).map(|_| (random(40), random(15))).collect();
            let mut cover = Cover::default();
            ranges.iter().enumerate().for_each(|(owner, (start, size))| cover.add(*start, *size, owner));
            for address in 0..60 {
                let covers = |(start, size): &(u64, u64)| (*start..start + size).contains(&address);
                let first = ranges.iter().position(covers).map(|owner| (owner, address - ranges[owner].0));
                assert_eq!(cover.at(address), first, "{address} in {ranges:?}");
            }
        }
    }
}
