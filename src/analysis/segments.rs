//! The segments of a device at any moment: those of the end, with the trace undone down to it.

use crate::{
    event::{Action, Address, PoolId, StreamId},
    history::{Joining, Moment, RangeValue, Ranges, insert_free, undo_segment_event},
    inventory::PoolKind,
    snapshot::{Segment, StackIndex, TraceEntry},
};

/// A range of memory that came from the device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct SegmentRange {
    /// Where it begins.
    pub address: Address,
    /// Its size.
    pub bytes: u64,
    /// The stream whose requests it serves.
    pub stream: StreamId,
    /// Whether it is a mapped range of an expandable segment.
    pub is_expandable: bool,
    /// The kind of pool it belongs to; `None` if it is gone at the end, where the kind is recorded.
    pub kind: Option<PoolKind>,
    /// The private pool it belongs to; `None` as for `kind`.
    pub pool: Option<PoolId>,
    /// The stack of the request that made it; `None` if it was not recorded.
    pub stack: Option<StackIndex>,
}

impl SegmentRange {
    /// The first address past it.
    #[must_use]
    pub fn end(&self) -> Address {
        self.address.saturating_add(self.bytes)
    }

    fn from_segment(segment: &Segment) -> SegmentRange {
        SegmentRange {
            address: segment.address,
            bytes: segment.total_size,
            stream: segment.stream,
            is_expandable: segment.is_expandable,
            kind: segment.kind,
            pool: Some(segment.pool),
            stack: segment.stack,
        }
    }

    /// The range that an entry gave back.
    fn from_entry(entry: &TraceEntry) -> SegmentRange {
        SegmentRange {
            address: entry.address,
            bytes: entry.size,
            stream: entry.stream,
            is_expandable: entry.action == Some(Action::SegmentUnmap),
            kind: None,
            pool: None,
            stack: None,
        }
    }

    /// Whether mapping would have made this range and the next one range.
    fn merges_with(&self, next: &SegmentRange) -> bool {
        self.is_expandable
            && next.is_expandable
            && self.stream == next.stream
            && self.end() == next.address
            && (self.pool == next.pool || self.pool.is_none() || next.pool.is_none())
    }
}

/// Ranges are merged only when everything is undone, so that undoing carves what mapping added.
impl RangeValue for SegmentRange {}

/// The ranges at a moment, by address. Of entries that contradict the segments, what can be undone is undone.
pub(super) fn at(segments: &[&Segment], entries: &[TraceEntry], moment: Moment) -> Vec<SegmentRange> {
    let mut ranges = Ranges::default();
    for segment in segments {
        let range = SegmentRange::from_segment(segment);
        insert_free(&mut ranges, range.address, range.bytes, range, Joining::Apart);
    }
    for entry in entries[moment.n_entries().min(entries.len())..].iter().rev() {
        let is_undone =
            undo_segment_event(&mut ranges, entry, SegmentRange::from_entry(entry), Joining::Apart).is_ok();
        if !is_undone && matches!(entry.action, Some(Action::SegmentAlloc | Action::SegmentMap)) {
            ranges.carve(entry.address, entry.address.saturating_add(entry.size));
        }
    }
    merged(&ranges)
}

fn merged(ranges: &Ranges<SegmentRange>) -> Vec<SegmentRange> {
    let mut merged: Vec<SegmentRange> = Vec::new();
    for (address, span) in ranges.iter() {
        let range = SegmentRange { address, bytes: span.end - address, ..span.value };
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
