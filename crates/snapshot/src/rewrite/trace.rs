//! The entries of one device, or of pinned host memory, from a source or from memory.

use std::ops::Range;

use crate::{
    model::{SnapshotSource, TraceEntry},
    words::DeviceId,
};

/// Entries in their order, for any number of passes.
#[derive(Clone, Copy)]
pub(crate) enum Trace<'a> {
    /// The entries of a device of a source.
    Source(&'a dyn SnapshotSource, DeviceId),
    /// Entries in memory.
    Slice(&'a [TraceEntry]),
}

impl Trace<'_> {
    pub(crate) fn len(self) -> usize {
        match self {
            Trace::Source(source, device) => source.n_entries(device),
            Trace::Slice(entries) => entries.len(),
        }
    }

    /// Calls `look` with the entries whose numbers are in a range.
    pub(crate) fn each(self, range: Range<usize>, mut look: impl FnMut(&TraceEntry)) {
        match self {
            Trace::Source(source, device) => source.for_each_entry_in(device, range, &mut look),
            Trace::Slice(entries) => {
                entries.iter().take(range.end).skip(range.start).for_each(look);
            }
        }
    }

    /// The time of an entry, in microseconds.
    pub(crate) fn time_us(self, number: usize) -> Option<i64> {
        let mut time_us = None;
        self.each(number..number.saturating_add(1), |entry| time_us = Some(entry.time_us));
        time_us
    }
}
