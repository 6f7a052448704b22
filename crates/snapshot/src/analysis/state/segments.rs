//! Reconstructs the segments of a device at any moment: those at the end, with later entries undone.

use serde::Serialize;

use crate::{
    history::{Joining, Moment, RangeValue, Ranges, insert_free, pool_of_entry, undo_segment_event},
    model::{Segment, Snapshot, StackIndex, StackTable, TraceEntry},
    words::{Action, Address, PoolId, PoolKind, StreamId},
};

/// A range of device memory that is held.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[non_exhaustive]
pub struct SegmentRange {
    /// Its first address.
    pub address: Address,
    /// Its size in bytes.
    pub bytes: u64,
    /// The stream whose requests use it.
    pub stream: StreamId,
    /// Whether it is a mapped range of an expandable segment.
    pub is_expandable: bool,
    /// The kind of pool that it belongs to; `None` if it was returned before the end, where kinds are
    /// recorded.
    pub kind: Option<PoolKind>,
    /// The pool that it belongs to; `None` under the same condition as `kind`, if entries do not name pools
    /// (before PyTorch 2.12).
    pub pool: Option<PoolId>,
    /// The stack of the request for which it was allocated; `None` if it was not recorded.
    pub stack: Option<StackIndex>,
}

impl SegmentRange {
    /// Returns the first address after it.
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

    /// Returns the range that an entry returned to the device.
    fn from_entry(snapshot: &Snapshot, entry: &TraceEntry) -> SegmentRange {
        SegmentRange {
            address: entry.address,
            bytes: entry.size,
            stream: entry.stream,
            is_expandable: entry.action == Some(Action::SegmentUnmap),
            kind: None,
            pool: pool_of_entry(snapshot, entry),
            stack: None,
        }
    }

    fn is_nameless(&self) -> bool {
        self.stack.is_none_or(|stack| stack == StackTable::EMPTY)
    }

    /// Returns whether mapping would have merged this range with the next.
    fn merges_with(&self, next: &SegmentRange) -> bool {
        self.is_expandable
            && next.is_expandable
            && self.stream == next.stream
            && self.end() == next.address
            && (self.pool == next.pool || self.pool.is_none() || next.pool.is_none())
    }
}

/// Ranges are merged only after all entries are undone, so that undoing a mapping removes only its range.
impl RangeValue for SegmentRange {}

/// Returns the ranges at a moment, by address. Entries that contradict the segments are undone as far as
/// possible.
pub(super) fn at(
    snapshot: &Snapshot,
    segments: &[&Segment],
    entries: &[TraceEntry],
    moment: Moment,
) -> Vec<SegmentRange> {
    let mut ranges = Ranges::default();
    for segment in segments {
        let range = SegmentRange::from_segment(segment);
        insert_free(&mut ranges, range.address, range.bytes, range, Joining::Apart);
    }
    for entry in entries[moment.n_entries().min(entries.len())..].iter().rev() {
        let given_back = SegmentRange::from_entry(snapshot, entry);
        let is_undone = undo_segment_event(&mut ranges, entry, given_back, Joining::Apart).is_ok();
        if !is_undone && matches!(entry.action, Some(Action::SegmentAlloc | Action::SegmentMap)) {
            ranges.carve(entry.address, entry.end());
        }
    }
    let mut merged = merged(&ranges);
    add_stacks(&mut merged, &entries[..moment.n_entries().min(entries.len())]);
    merged
}

/// Adds the stacks of ranges that have none, because they were returned before the end or are pages after the first
/// ones: the stack of the last entry that took a part of them.
fn add_stacks(ranges: &mut [SegmentRange], entries: &[TraceEntry]) {
    let mut n_without = ranges.iter().filter(|range| range.is_nameless()).count();
    for entry in entries.iter().rev() {
        if n_without == 0 {
            return;
        }
        if !matches!(entry.action, Some(Action::SegmentAlloc | Action::SegmentMap)) {
            continue;
        }
        let after = ranges.partition_point(|range| range.address <= entry.address);
        let Some(range) = ranges[..after].last_mut() else { continue };
        if range.is_nameless() && entry.address < range.end() {
            range.stack = entry.stack;
            n_without -= usize::from(!range.is_nameless());
        }
    }
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
                last.stack = last.stack.or(range.stack);
            }
            None => merged.push(range),
        }
    }
    merged
}
