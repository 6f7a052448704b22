//! The segments of a device at any moment: those of the end, with the trace undone down to it.

use std::collections::BTreeMap;

use super::life::Moment;
use crate::{
    event::{Action, PoolId, StreamId},
    inventory::PoolKind,
    snapshot::{Block, Field, Segment, Snapshot, StackIndex, TraceEntry},
};

/// A range of memory that came from the device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Range {
    /// Where it begins.
    pub address: u64,
    /// Its size.
    pub bytes: u64,
    /// The stream whose requests it serves.
    pub stream: StreamId,
    /// Whether it is a mapped range of an expandable segment.
    pub is_expandable: bool,
    /// The kind of pool it belongs to; `None` if it is gone at the end, where this is told.
    pub kind: Option<PoolKind>,
    /// The private pool it belongs to; `None` as above.
    pub pool: Option<PoolId>,
    /// Who made it; `None` if nobody recorded it.
    pub stack: Option<StackIndex>,
}

impl Range {
    /// The first address past it.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.address.saturating_add(self.bytes)
    }

    fn of(segment: &Segment) -> Range {
        Range {
            address: segment.address,
            bytes: segment.total_size,
            stream: segment.stream,
            is_expandable: segment.is_expandable,
            kind: segment.kind,
            pool: Some(segment.pool),
            stack: segment.stack,
        }
    }

    fn given_back(entry: &TraceEntry) -> Range {
        Range {
            address: entry.address,
            bytes: entry.size,
            stream: entry.stream,
            is_expandable: entry.action == Some(Action::SegmentUnmap),
            kind: None,
            pool: None,
            stack: None,
        }
    }

    /// Ranges that mapping would have made one.
    fn merges_with(&self, next: &Range) -> bool {
        self.is_expandable
            && next.is_expandable
            && self.stream == next.stream
            && self.end() == next.address
            && (self.pool == next.pool || self.pool.is_none() || next.pool.is_none())
    }
}

/// The blocks of a segment with their addresses, computed where PyTorch 2.0 wrote none.
pub(crate) fn blocks<'a>(
    snapshot: &'a Snapshot,
    segment: &'a Segment,
) -> impl Iterator<Item = (u64, &'a Block)> {
    let mut next = segment.address;
    segment.blocks.iter().map(move |block| {
        let has_address = snapshot.shapes.get(block.shape).has(Field::Address);
        let address = if has_address { block.address } else { next };
        next = next.saturating_add(block.size);
        (address, block)
    })
}

/// The ranges at a moment, by address. What cannot be undone is left as it is.
pub(super) fn at(segments: &[&Segment], entries: &[TraceEntry], moment: Moment) -> Vec<Range> {
    let mut ranges = Ranges::default();
    segments.iter().for_each(|segment| ranges.insert(Range::of(segment)));
    for entry in entries[moment.n_entries().min(entries.len())..].iter().rev() {
        match entry.action {
            Some(Action::SegmentAlloc | Action::SegmentMap) => ranges.carve(entry.address, entry.size),
            Some(Action::SegmentFree | Action::SegmentUnmap) => ranges.insert(Range::given_back(entry)),
            _ => {}
        }
    }
    ranges.merged()
}

/// Ranges by where they begin; merged only when all is undone, so that undoing carves what mapping added.
#[derive(Debug, Default)]
struct Ranges(BTreeMap<u64, Range>);

impl Ranges {
    fn insert(&mut self, range: Range) {
        let overlaps =
            self.0.range(..range.end()).next_back().is_some_and(|(_, found)| found.end() > range.address);
        if range.bytes > 0 && !overlaps {
            self.0.insert(range.address, range);
        }
    }

    /// Takes `[address, address + bytes)` away from whatever covers it.
    fn carve(&mut self, address: u64, bytes: u64) {
        let end = address.saturating_add(bytes);
        let first = self.0.range(..=address).next_back().map_or(address, |(start, _)| *start);
        let hit: Vec<Range> = self.0.range(first..end).map(|(_, range)| *range).collect();
        for range in hit.into_iter().filter(|range| range.end() > address && range.address < end) {
            self.0.remove(&range.address);
            if range.address < address {
                self.0.insert(range.address, Range { bytes: address - range.address, ..range });
            }
            if range.end() > end {
                self.0.insert(end, Range { address: end, bytes: range.end() - end, ..range });
            }
        }
    }

    fn merged(self) -> Vec<Range> {
        let mut merged: Vec<Range> = Vec::with_capacity(self.0.len());
        for range in self.0.into_values() {
            match merged.last_mut().filter(|last| last.merges_with(&range)) {
                Some(last) => {
                    last.bytes += range.bytes;
                    last.kind = last.kind.or(range.kind);
                    last.pool = last.pool.or(range.pool);
                }
                None => merged.push(range),
            }
        }
        merged
    }
}
