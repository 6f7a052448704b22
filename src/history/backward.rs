//! The backward walk: a trace undone from the final state, entry by entry from its end.
//!
//! [`Backward`] has the segments and the blocks in use at one point, at first those of the
//! [`FinalState`]. The caller undoes entries from the last to the first:
//!
//! - `alloc`: [`Backward::blocks`] loses the block ([`Live::remove`]).
//! - `free_completed`: the block was there before. [`Backward::block_obstacles`] says what
//!   contradicts that, then the caller inserts it.
//! - segment events: [`Backward::undo_segment_event`].
//!
//! A step that the later entries rule out is an [`Obstacle`]; the caller decides what follows:
//! `validate` reports it and goes on, `fix` removes it by an event that must have been there and
//! tries again, or drops the entry, and `analysis` takes what is there.
//! The functions on segments work on [`Ranges`] alone too, for callers that do not undo blocks.

use super::ranges::{RangeValue, Ranges, Span};
use crate::{
    event::{Action, Address, StreamId},
    snapshot::{Segment, TraceEntry},
};

/// The record that describes a range of memory best.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Origin {
    /// A segment of the file, by its number.
    Segment(usize),
    /// An entry of the trace, by its number.
    Entry(usize),
}

/// A range that the device gave. Expandable neighbours of one stream are one range, as mapping makes them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct DeviceRange {
    pub(crate) stream: StreamId,
    pub(crate) is_expandable: bool,
    pub(crate) origin: Origin,
}

impl RangeValue for DeviceRange {
    fn joins(&self, next: &DeviceRange) -> bool {
        self.is_expandable && next.is_expandable && self.stream == next.stream
    }
}

/// Why a segment event cannot be undone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Obstacle {
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

/// The ranges of a device's final segments, given with their numbers in the file.
pub(crate) fn final_ranges<'s>(
    segments: impl IntoIterator<Item = (usize, &'s Segment)>,
) -> Ranges<DeviceRange> {
    let mut ranges = Ranges::default();
    for (number, segment) in segments {
        let value = DeviceRange {
            stream: segment.stream,
            is_expandable: segment.is_expandable,
            origin: Origin::Segment(number),
        };
        insert_free(&mut ranges, segment.address, segment.total_size, value, Joining::Joined);
    }
    ranges
}

/// Whether a range that is inserted becomes one with its neighbours.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Joining {
    Joined,
    Apart,
}

/// Inserts a range where nothing overlaps it, and returns whether it did.
pub(crate) fn insert_free<R: RangeValue>(
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

/// Undoes a segment event; an entry of another kind changes nothing. `given_back` describes the
/// range that a `segment_free` or `segment_unmap` took.
///
/// # Errors
/// The obstacle, with the ranges as they were.
pub(crate) fn undo_segment_event<R: RangeValue>(
    ranges: &mut Ranges<R>,
    entry: &TraceEntry,
    given_back: R,
    joining: Joining,
) -> Result<(), Obstacle> {
    let (start, end) = (entry.address, entry.address.saturating_add(entry.size));
    match entry.action {
        Some(Action::SegmentAlloc) => match ranges.get(start) {
            Some(span) if span.end == end => {
                ranges.remove(start);
                Ok(())
            }
            Some(span) => Err(Obstacle::SegmentResized { end: span.end }),
            None => Err(Obstacle::SegmentMissing),
        },
        Some(Action::SegmentMap) => {
            if ranges.covering(start, end).is_none() {
                return Err(Obstacle::RangeMissing);
            }
            if end == start {
                return Err(Obstacle::Empty);
            }
            ranges.carve(start, end);
            Ok(())
        }
        Some(Action::SegmentFree | Action::SegmentUnmap) => {
            if end == start {
                return Err(Obstacle::Empty);
            }
            if let Some((by, _)) = ranges.overlapping(start, end) {
                return Err(Obstacle::Overlapped { by });
            }
            insert_free(ranges, start, entry.size, given_back, joining);
            Ok(())
        }
        _ => Ok(()),
    }
}
