//! The backward walk: undoes segment events from the final state, entry by entry from the end of a trace.
//!
//! [`final_ranges`] has the ranges of the final segments. The caller undoes entries from the last to the
//! first with [`undo_segment_event`], and keeps the blocks in use in a [`Live`](super::Live) if it undoes
//! those too.
//!
//! A step that later entries contradict is an [`Obstacle`]; the caller decides what follows. `validate` reports it and
//! continues, `fix` removes it by adding an event that must have existed and tries again, or drops the entry, and
//! `analysis` uses what exists. A caller that must check before it changes anything calls [`segment_obstacle`].

use super::ranges::{RangeValue, Ranges, Span};
use crate::{
    model::{Segment, TraceEntry},
    words::{Action, Address, StreamId},
};

/// The record that describes a range of memory best.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Origin {
    /// A segment of the file, by its number.
    Segment(usize),
    /// An entry of the trace, by its number.
    Entry(usize),
}

/// A range that the device provided. Adjacent expandable ranges of one stream are one range, as mapping creates them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct DeviceRange {
    pub stream: StreamId,
    pub is_expandable: bool,
    pub origin: Origin,
}

impl DeviceRange {
    /// Returns the range that a segment event takes or releases; `number` is the entry's.
    pub(crate) fn from_entry(entry: &TraceEntry, number: usize) -> DeviceRange {
        let is_expandable = matches!(entry.action, Some(Action::SegmentMap | Action::SegmentUnmap));
        DeviceRange { stream: entry.stream, is_expandable, origin: Origin::Entry(number) }
    }
}

impl RangeValue for DeviceRange {
    fn joins(&self, next: &DeviceRange) -> bool {
        self.is_expandable && next.is_expandable && self.stream == next.stream
    }
}

/// Why a segment event cannot be undone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Obstacle {
    /// `segment_alloc` where no segment begins later, and no `segment_free` took one.
    SegmentMissing,
    /// `segment_alloc` where a segment begins later that has another end.
    SegmentResized {
        /// The end of the later segment.
        end: Address,
    },
    /// `segment_map` of a range that is not in one segment later, and no `segment_unmap` took it.
    RangeMissing,
    /// `segment_free` or `segment_unmap` of a range that a later segment overlaps.
    Overlapped {
        /// Where the later segment begins.
        by: Address,
    },
    /// An event of no bytes, which changes nothing.
    Empty,
}

/// The ranges of a device's final segments, given with their numbers in the file. A segment that overlaps
/// an earlier one is left out.
pub(crate) fn final_ranges<'s>(
    segments: impl IntoIterator<Item = (usize, &'s Segment)>,
    joining: Joining,
) -> Ranges<DeviceRange> {
    let mut ranges = Ranges::default();
    for (number, segment) in segments {
        let value = DeviceRange {
            stream: segment.stream,
            is_expandable: segment.is_expandable,
            origin: Origin::Segment(number),
        };
        insert_free(&mut ranges, segment.address, segment.total_size, value, joining);
    }
    ranges
}

/// Whether an inserted range is merged with its neighbours.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Joining {
    /// It becomes one with a neighbour of the same value.
    Joined,
    /// It stays as it is.
    Apart,
}

/// Inserts a range if nothing overlaps it, and returns whether it did.
pub fn insert_free<R: RangeValue>(
    ranges: &mut Ranges<R>,
    start: Address,
    bytes: u64,
    value: R,
    joining: Joining,
) -> bool {
    let end = start.saturating_add(bytes);
    if end == start || ranges.overlapping(start, end).is_some() {
        return false;
    }
    match joining {
        Joining::Joined => ranges.insert(start, Span { end, value }),
        Joining::Apart => ranges.insert_apart(start, Span { end, value }),
    }
    true
}

/// Returns what prevents [`undo_segment_event`], if anything does.
pub(crate) fn segment_obstacle<R: RangeValue>(ranges: &Ranges<R>, entry: &TraceEntry) -> Option<Obstacle> {
    let (start, end) = (entry.address, entry.end());
    match entry.action {
        Some(Action::SegmentAlloc) => match ranges.get(start) {
            Some(span) if span.end == end => None,
            Some(span) => Some(Obstacle::SegmentResized { end: span.end }),
            None => Some(Obstacle::SegmentMissing),
        },
        Some(Action::SegmentMap) if ranges.covering(start, end).is_none() => Some(Obstacle::RangeMissing),
        Some(Action::SegmentMap | Action::SegmentFree | Action::SegmentUnmap) if end == start => {
            Some(Obstacle::Empty)
        }
        Some(Action::SegmentFree | Action::SegmentUnmap) => {
            ranges.overlapping(start, end).map(|(by, _)| Obstacle::Overlapped { by })
        }
        _ => None,
    }
}

/// Undoes a segment event; an entry of another kind changes nothing. `given_back` describes the
/// range that a `segment_free` or `segment_unmap` took.
///
/// # Errors
/// The obstacle, with the ranges as they were.
pub fn undo_segment_event<R: RangeValue>(
    ranges: &mut Ranges<R>,
    entry: &TraceEntry,
    given_back: R,
    joining: Joining,
) -> Result<(), Obstacle> {
    if let Some(obstacle) = segment_obstacle(ranges, entry) {
        return Err(obstacle);
    }
    let start = entry.address;
    match entry.action {
        Some(Action::SegmentAlloc) => drop(ranges.remove(start)),
        Some(Action::SegmentMap) => ranges.carve(start, entry.end()),
        Some(Action::SegmentFree | Action::SegmentUnmap) => {
            insert_free(ranges, start, entry.size, given_back, joining);
        }
        _ => {}
    }
    Ok(())
}
