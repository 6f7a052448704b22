//! The address ranges a device has given, at one point of a replay.
//!
//! Ranges of expandable segments merge with their neighbours of the same
//! stream, as mapping does; others stay what the device gave.

use crate::event::StreamId;

use std::collections::BTreeMap;

/// One range, without its beginning.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Span {
    pub(super) end: u64,
    pub(super) stream: StreamId,
    pub(super) is_expandable: bool,
}

/// Ranges that do not overlap, by where they begin.
#[derive(Debug, Default)]
pub(super) struct Ranges(BTreeMap<u64, Span>);

impl Ranges {
    /// The range an address is in.
    pub(super) fn at(&self, address: u64) -> Option<(u64, Span)> {
        let (start, span) = self.0.range(..=address).next_back()?;
        (span.end > address).then_some((*start, *span))
    }

    /// A range that shares a byte with `[start, end)`.
    pub(super) fn overlapping(&self, start: u64, end: u64) -> Option<(u64, Span)> {
        let (other, span) = self.0.range(..end).next_back()?;
        (span.end > start && end > start).then_some((*other, *span))
    }

    /// Adds a range that overlaps none.
    pub(super) fn insert(&mut self, start: u64, span: Span) {
        let (mut start, mut span) = (start, span);
        if span.is_expandable {
            let before = self.0.range(..start).next_back().map(|(at, before)| (*at, *before));
            if let Some((at, _)) = before.filter(|(_, before)| before.end == start && merge(before, &span)) {
                start = at;
            }
            if let Some(after) = self.0.get(&span.end).copied().filter(|after| merge(after, &span)) {
                self.0.remove(&span.end);
                span.end = after.end;
            }
        }
        self.0.insert(start, span);
    }

    /// Takes away exactly this range, or says what begins there instead.
    pub(super) fn remove(&mut self, start: u64, end: u64) -> Result<(), Option<Span>> {
        match self.0.get(&start) {
            Some(span) if span.end == end => {
                self.0.remove(&start);
                Ok(())
            }
            other => Err(other.copied()),
        }
    }

    /// Takes `[start, end)` out of the one range that covers it, if there is one.
    pub(super) fn carve(&mut self, start: u64, end: u64) -> bool {
        let Some((from, span)) = self.at(start).filter(|(_, span)| span.end >= end) else { return false };
        self.0.remove(&from);
        if from < start {
            self.0.insert(from, Span { end: start, ..span });
        }
        if end < span.end {
            self.0.insert(end, span);
        }
        true
    }
}

fn merge(one: &Span, other: &Span) -> bool {
    one.is_expandable && other.is_expandable && one.stream == other.stream
}
