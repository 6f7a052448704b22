//! Prints a trace with short names, as PyTorch's tool does, with or without the tool's errors
//! (`docs/snapshot-format.md` 4.3).

use std::{
    fmt,
    sync::{Arc, OnceLock},
};

use crate::{
    history::{ByDevice, Layers, RangeValue, Span},
    model::{Segment, Snapshot, TraceEntry},
    words::{Action, Address, DeviceId, SeededMap},
};

/// The way in which blocks and segments get their names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Naming {
    /// A name is reused after its block or segment is freed. The second free of a block has no name.
    Recycled,
    /// As in PyTorch's tool, a name is never reused, and freed segments keep their addresses.
    PyTorch,
}

/// The number of a name: 0 to 25 are `a` to `z`, 26 to 51 are `a1` to `z1`, and so on.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct ShortName(pub u32);

impl fmt::Display for ShortName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let letter = char::from(b'a' + u8::try_from(self.0 % 26).unwrap_or(0));
        match self.0 / 26 {
            0 => write!(f, "{letter}"),
            round => write!(f, "{letter}{round}"),
        }
    }
}

/// The segment of a block, and the block's offset in it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Home {
    /// A segment of the trace.
    Traced {
        /// The segment's name.
        segment: ShortName,
        /// The block's offset in bytes.
        offset: u64,
    },
    /// A segment of the snapshot.
    Final {
        /// The segment's index.
        segment: usize,
        /// The block's offset in bytes.
        offset: u64,
    },
    /// No known segment.
    Unknown,
}

/// An entry of a trace with the name of its block or segment.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct TraceLine<'a> {
    /// The entry.
    pub entry: &'a TraceEntry,
    /// The name of the block or segment at its address; `None` if there is none.
    pub name: Option<ShortName>,
    /// The segment of an allocated block; [`Home::Unknown`] for entries with other actions.
    pub home: Home,
}

/// Returns the entries of a device's trace with their names, one by one.
///
/// For several devices of one snapshot, [`TraceNames`] finds the segments once.
pub fn trace_lines(
    snapshot: &Snapshot,
    device: impl Into<DeviceId>,
    naming: Naming,
) -> impl Iterator<Item = TraceLine<'_>> {
    TraceNames::new(snapshot, naming).lines(device)
}

/// The final segments of a snapshot, for naming the entries of its devices.
#[derive(Debug)]
pub struct TraceNames<'a> {
    naming: Naming,
    records: ByDevice<'a>,
    /// The segments of every device; only the tool searches these, and only their allocated bytes.
    of_all: OnceLock<Arc<Layers<Named<usize>>>>,
}

impl<'a> TraceNames<'a> {
    /// Creates it from a snapshot and the way in which its blocks get their names.
    #[must_use]
    pub fn new(snapshot: &'a Snapshot, naming: Naming) -> TraceNames<'a> {
        TraceNames { naming, records: ByDevice::new(snapshot), of_all: OnceLock::new() }
    }

    /// Returns the entries of a device's trace with their names, one by one.
    pub fn lines<D>(&self, device: D) -> impl Iterator<Item = TraceLine<'a>> + use<'a, D>
    where
        D: Into<DeviceId>,
    {
        let device = device.into();
        let final_segments = match self.naming {
            Naming::PyTorch => self.of_all.get_or_init(|| {
                let all = self.records.snapshot().segments.iter().enumerate();
                Arc::new(layers(all.map(|(number, segment)| (number, segment, segment.allocated_size))))
            }),
            Naming::Recycled => {
                let own = self.records.segments(device);
                &Arc::new(layers(own.map(|(number, segment)| (number, segment, segment.total_size))))
            }
        };
        let mut names = Names::new(self.naming, final_segments.clone());
        self.records.snapshot().trace(device).iter().map(move |entry| names.line(entry))
    }
}

fn layers<'s>(segments: impl Iterator<Item = (usize, &'s Segment, u64)>) -> Layers<Named<usize>> {
    let mut layers = Layers::default();
    segments.for_each(|(number, segment, bytes)| add(&mut layers, segment.address, bytes, number));
    layers
}

#[derive(Debug)]
struct Names {
    naming: Naming,
    next: u32,
    free: Vec<ShortName>,
    blocks: SeededMap<Address, ShortName>,
    segments: SeededMap<Address, ShortName>,
    traced: Layers<Named<ShortName>>,
    final_segments: Arc<Layers<Named<usize>>>,
}

impl Names {
    fn new(naming: Naming, final_segments: Arc<Layers<Named<usize>>>) -> Names {
        Names {
            naming,
            next: 0,
            free: Vec::new(),
            blocks: SeededMap::default(),
            segments: SeededMap::default(),
            traced: Layers::default(),
            final_segments,
        }
    }

    fn line<'a>(&mut self, entry: &'a TraceEntry) -> TraceLine<'a> {
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
                    self.traced.remove_beginning_in(address, address.saturating_add(size));
                }
                add(&mut self.traced, address, size, name);
                self.segments.insert(address, name);
                Some(name)
            }
            Some(Action::SegmentFree) => self.free_segment(address, size),
            _ => None,
        };
        TraceLine { entry, name, home }
    }

    fn name(&mut self) -> ShortName {
        self.free.pop().unwrap_or_else(|| {
            self.next += 1;
            ShortName(self.next - 1)
        })
    }

    fn free_block(&mut self, address: Address) -> Option<ShortName> {
        if self.naming == Naming::PyTorch {
            return self.blocks.get(&address).copied();
        }
        let name = self.blocks.remove(&address);
        self.free.extend(name);
        name
    }

    fn free_segment(&mut self, address: Address, size: u64) -> Option<ShortName> {
        if self.naming == Naming::PyTorch {
            return self.segments.get(&address).copied();
        }
        self.traced.remove_beginning_in(address, address.saturating_add(size));
        let name = self.segments.remove(&address);
        self.free.extend(name);
        name
    }

    fn home(&self, address: Address) -> Home {
        if let Some((_, Span { value: Named { name, start }, .. })) = self.traced.at(address) {
            return Home::Traced { segment: name, offset: address - start };
        }
        match self.final_segments.at(address) {
            Some((_, Span { value: Named { name, start }, .. })) => {
                Home::Final { segment: name, offset: address - start }
            }
            None => Home::Unknown,
        }
    }
}

/// The name of a range. If several ranges cover an address, it belongs to the first that was added.
#[derive(Clone, Copy, Debug)]
struct Named<T> {
    name: T,
    /// The first address of the whole range.
    start: Address,
}

impl<T: Copy> RangeValue for Named<T> {}

fn add<T: Copy>(layers: &mut Layers<Named<T>>, start: Address, bytes: u64, name: T) {
    layers.add(start, Span { end: start.saturating_add(bytes), value: Named { name, start } });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_the_alphabet() {
        let texts = [0, 25, 26, 27, 52].map(|n| ShortName(n).to_string());
        assert_eq!(texts, ["a", "z", "a1", "b1", "a2"]);
    }
}
