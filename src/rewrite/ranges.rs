//! The address ranges a device has given, at one point of a replay, each with where it came from.
//!
//! Ranges of expandable segments merge with their neighbours of the same
//! stream, as mapping does; others stay what the device gave.

use crate::event::StreamId;

use std::collections::BTreeMap;

/// Which record describes a range best.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Origin {
    /// A segment of the file, by its number.
    Segment(usize),
    /// An entry of the trace, by its number.
    Entry(usize),
}

/// One range, without its beginning.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Span {
    pub(super) end: u64,
    pub(super) stream: StreamId,
    pub(super) is_expandable: bool,
    pub(super) origin: Origin,
}

/// Ranges that do not overlap, by where they begin.
#[derive(Clone, Debug, Default)]
pub(super) struct Ranges(BTreeMap<u64, Span>);

impl Ranges {
    /// Every range by its address.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, Span)> {
        self.0.iter().map(|(start, span)| (*start, *span))
    }

    /// The range that covers all of `[start, end)`.
    pub(super) fn covering(&self, start: u64, end: u64) -> Option<(u64, Span)> {
        let (at, span) = self.0.range(..=start).next_back()?;
        (span.end > start && span.end >= end).then_some((*at, *span))
    }

    /// The last range that shares a byte with `[start, end)`.
    pub(super) fn overlapping(&self, start: u64, end: u64) -> Option<(u64, Span)> {
        let (other, span) = self.0.range(..end).next_back()?;
        (span.end > start && end > start).then_some((*other, *span))
    }

    /// Adds a range that overlaps none, and says where it then begins.
    pub(super) fn insert(&mut self, start: u64, span: Span) {
        let (mut start, mut span) = (start, span);
        if span.is_expandable {
            let before = self.0.range(..start).next_back().map(|(at, before)| (*at, *before));
            if let Some((at, before)) =
                before.filter(|(_, before)| before.end == start && merge(before, &span))
            {
                start = at;
                span.origin = before.origin;
            }
            if let Some(after) = self.0.get(&span.end).copied().filter(|after| merge(after, &span)) {
                self.0.remove(&span.end);
                span.end = after.end;
            }
        }
        self.0.insert(start, span);
    }

    /// Adds a range that overlaps none, without joining it to others.
    pub(super) fn insert_apart(&mut self, start: u64, span: Span) {
        self.0.insert(start, span);
    }

    /// Takes away the range that begins there.
    pub(super) fn remove(&mut self, start: u64) -> Option<Span> {
        self.0.remove(&start)
    }

    /// The range that begins there.
    pub(super) fn get(&self, start: u64) -> Option<Span> {
        self.0.get(&start).copied()
    }

    /// Takes `[start, end)` out of the one range that covers it, if there is one.
    pub(super) fn carve(&mut self, start: u64, end: u64) -> Option<Span> {
        let (from, span) = self.covering(start, end).filter(|_| end > start)?;
        self.0.remove(&from);
        if from < start {
            self.0.insert(from, Span { end: start, ..span });
        }
        if end < span.end {
            self.0.insert(end, span);
        }
        Some(span)
    }
}

fn merge(one: &Span, other: &Span) -> bool {
    one.is_expandable && other.is_expandable && one.stream == other.stream
}
