//! The entries of a file: all of them in memory, or their offsets, so that they can be decoded again.

#![forbid(unsafe_code)]

use std::ops::Range;

use super::node::number;
use crate::model::{TraceEntry, UseCounts};

/// The entries decoded so far, numbered in the order of the file.
#[derive(Debug)]
pub(super) enum Entries {
    InMemory(Vec<TraceEntry>),
    InFile(EntrySpans),
}

impl Default for Entries {
    fn default() -> Self {
        Entries::InMemory(Vec::new())
    }
}

impl Entries {
    /// Returns the number of entries, which is the number of the next one.
    #[inline(always)]
    pub(super) fn len(&self) -> u32 {
        match self {
            Entries::InMemory(all) => number(all.len()),
            Entries::InFile(spans) => spans.n_entries,
        }
    }

    /// Returns the entries in memory, if all of them are there.
    pub(super) fn in_memory(&self) -> &[TraceEntry] {
        match self {
            Entries::InMemory(all) => all,
            Entries::InFile(_) => &[],
        }
    }

    /// Returns the bytes of memory that they take.
    pub(super) fn n_bytes(&self) -> usize {
        match self {
            Entries::InMemory(all) => all.len() * size_of::<TraceEntry>(),
            Entries::InFile(spans) => spans.all.len() * size_of::<(u32, Span)>(),
        }
    }

    /// Adds an entry that the fast path decoded from these bytes.
    #[inline(always)]
    pub(super) fn push(&mut self, entry: TraceEntry, begin: usize, end: usize) {
        match self {
            Entries::InMemory(all) => all.push(entry),
            Entries::InFile(spans) => {
                spans.use_counts.add(&entry);
                spans.push(begin, end);
            }
        }
    }

    /// Adds an entry that only the slow path can decode, and which is therefore kept in memory.
    pub(super) fn keep(&mut self, entry: TraceEntry) {
        match self {
            Entries::InMemory(all) => all.push(entry),
            Entries::InFile(spans) => {
                spans.use_counts.add(&entry);
                spans.keep(entry);
            }
        }
    }
}

/// Consecutive entries, or a single one.
#[derive(Clone, Copy, Debug)]
pub(super) enum Span {
    /// The offset of the first entry in the file.
    InFile(usize),
    InMemory(TraceEntry),
}

/// The offsets of a file's entries. A span is as long as a batch of the file, usually a thousand entries.
#[derive(Debug, Default)]
pub(super) struct EntrySpans {
    /// With the number of each span's first entry.
    all: Vec<(u32, Span)>,
    n_entries: u32,
    /// The end of the last span: an entry that begins there continues it.
    end: Option<usize>,
    n_in_span: usize,
    /// Counted while the entries are decoded for the first time.
    pub(super) use_counts: UseCounts,
}

/// Longer spans are cut, so that an entry is found without decoding all entries before it.
const MAX_SPAN: usize = 4096;

impl EntrySpans {
    #[inline(always)]
    fn push(&mut self, begin: usize, end: usize) {
        if self.end != Some(begin) || self.n_in_span == MAX_SPAN {
            self.all.push((self.n_entries, Span::InFile(begin)));
            self.n_in_span = 0;
        }
        self.end = Some(end);
        self.n_in_span += 1;
        self.n_entries += 1;
    }

    fn keep(&mut self, entry: TraceEntry) {
        self.all.push((self.n_entries, Span::InMemory(entry)));
        self.end = None;
        self.n_entries += 1;
    }

    /// Returns the number of entries.
    pub(super) fn len(&self) -> u32 {
        self.n_entries
    }

    #[cfg(test)]
    pub(super) fn n_spans(&self) -> usize {
        self.all.len()
    }

    /// Returns the span that contains an entry, with the numbers of the span's entries.
    pub(super) fn find(&self, entry: u32) -> Option<(Range<u32>, Span)> {
        let at = self.all.partition_point(|(first, _)| *first <= entry).checked_sub(1)?;
        let end = self.all.get(at + 1).map_or(self.n_entries, |(next, _)| *next);
        let (first, span) = self.all[at];
        (entry < end).then_some((first..end, span))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn consecutive_entries_are_one_span() {
        let mut spans = EntrySpans::default();
        spans.push(10, 20);
        spans.push(20, 25);
        spans.keep(TraceEntry::default());
        spans.push(30, 40);
        spans.push(42, 50);
        let found: Vec<_> = (0..6).map(|entry| spans.find(entry)).collect();
        let range = |entry: usize| found[entry].as_ref().map(|(range, _)| range.clone());
        assert_eq!(
            [0, 1, 2, 3, 4, 5].map(range),
            [Some(0..2), Some(0..2), Some(2..3), Some(3..4), Some(4..5), None]
        );
        assert!(
            matches!(found[1], Some((_, Span::InFile(10))))
                && matches!(found[4], Some((_, Span::InFile(42))))
        );
        assert!(matches!(found[2], Some((_, Span::InMemory(_)))));
    }
}
