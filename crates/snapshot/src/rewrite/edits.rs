//! Collects insertions and deletions in a trace, and applies them at once.

use super::change::Changes;
use crate::{model::TraceEntry, words::Address};

/// The order of insertions between two entries: those that belong to the earlier entry come first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Side {
    FirstAfter,
    After,
    Before,
}

/// Edits of one trace. Entries have the numbers from before all edits.
#[derive(Debug)]
pub(super) struct Edits {
    insertions: Vec<(usize, Side, TraceEntry)>,
    is_dropped: Vec<bool>,
    sizes: Vec<(usize, u64)>,
    counts: Vec<(&'static str, usize)>,
}

/// An insertion that may still be changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct InsertionId(usize);

impl Edits {
    pub(super) fn new(n_entries: usize) -> Edits {
        Edits {
            insertions: Vec::new(),
            is_dropped: vec![false; n_entries],
            sizes: Vec::new(),
            counts: Vec::new(),
        }
    }

    /// Inserts before an entry, after earlier such insertions.
    pub(super) fn before(&mut self, index: usize, entry: TraceEntry) {
        self.insertions.push((index, Side::Before, entry));
    }

    /// Inserts directly after an entry.
    pub(super) fn after(&mut self, index: usize, entry: TraceEntry) -> InsertionId {
        self.insertions.push((index + 1, Side::After, entry));
        InsertionId(self.insertions.len() - 1)
    }

    /// Inserts directly after an entry, before all other insertions there.
    pub(super) fn first_after(&mut self, index: usize, entry: TraceEntry) {
        self.insertions.push((index + 1, Side::FirstAfter, entry));
    }

    /// Returns the inserted entry, to be changed.
    pub(super) fn inserted(&mut self, id: InsertionId) -> &mut TraceEntry {
        &mut self.insertions[id.0].2
    }

    /// Changes the size of an entry.
    pub(super) fn resize(&mut self, index: usize, size: u64) {
        self.sizes.push((index, size));
    }

    pub(super) fn drop_entry(&mut self, index: usize) {
        self.is_dropped[index] = true;
    }

    pub(super) fn is_dropped(&self, index: usize) -> bool {
        self.is_dropped[index]
    }

    /// Counts a change for the report.
    pub(super) fn count(&mut self, what: &'static str) {
        match self.counts.iter_mut().find(|(counted, _)| *counted == what) {
            Some((_, count)) => *count += 1,
            None => self.counts.push((what, 1)),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.insertions.is_empty() && self.sizes.is_empty() && !self.is_dropped.contains(&true)
    }

    /// Returns the addresses that edits of this trace are about: the first, and one past the last.
    pub(super) fn ranges(&self, trace: &[TraceEntry]) -> impl Iterator<Item = (Address, Address)> {
        let inserted = self.insertions.iter().map(|(_, _, entry)| entry.span());
        let resized = self.sizes.iter().map(|(index, _)| trace[*index].span());
        let dropped = trace.iter().zip(&self.is_dropped).filter(|(_, is_dropped)| **is_dropped);
        inserted.chain(resized).chain(dropped.map(|(entry, _)| entry.span()))
    }

    /// Applies the edits. An inserted entry has the time of the entry before it.
    pub(super) fn apply(mut self, trace: &mut Vec<TraceEntry>, place: &str, changes: &mut Changes) {
        for (what, count) in &self.counts {
            changes.add(place, what, *count);
        }
        for (index, size) in &self.sizes {
            trace[*index].size = *size;
        }
        if self.insertions.is_empty() && !self.is_dropped.contains(&true) {
            return;
        }
        self.insertions.sort_by_key(|(index, side, _)| (*index, *side));
        let mut out: Vec<TraceEntry> = Vec::with_capacity(trace.len() + self.insertions.len());
        let first_time = trace.first().map_or(0, |entry| entry.time_us);
        let mut insertions = self.insertions.into_iter().peekable();
        for index in 0..=trace.len() {
            while let Some((_, _, mut entry)) = insertions.next_if(|(at, _, _)| *at <= index) {
                entry.time_us = out.last().map_or(first_time, |last| last.time_us);
                out.push(entry);
            }
            if index < trace.len() && !self.is_dropped[index] {
                out.push(trace[index]);
            }
        }
        *trace = out;
    }
}
