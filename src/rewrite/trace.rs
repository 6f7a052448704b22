//! The entries of one device, or of pinned host memory, wherever they are kept.

use std::ops::Range;

use crate::{
    event::DeviceId,
    snapshot::{SnapshotSource, TraceEntry},
};

/// Entries in their order, to be gone through as often as need be.
#[derive(Clone, Copy)]
pub(crate) enum Trace<'a> {
    /// Those of a device.
    Of(&'a dyn SnapshotSource, DeviceId),
    /// Those that are in memory.
    Held(&'a [TraceEntry]),
}

impl Trace<'_> {
    pub(crate) fn len(self) -> usize {
        match self {
            Trace::Of(document, device) => document.n_entries(device),
            Trace::Held(entries) => entries.len(),
        }
    }

    /// Calls `look` with the entries of these numbers.
    pub(crate) fn each(self, range: Range<usize>, mut look: impl FnMut(&TraceEntry)) {
        match self {
            Trace::Of(document, device) => document.for_each_entry_in(device, range, &mut look),
            Trace::Held(entries) => {
                entries.iter().take(range.end).skip(range.start).for_each(look);
            }
        }
    }

    /// The time of the entry of that number.
    pub(crate) fn time_us(self, number: usize) -> Option<i64> {
        let mut time_us = None;
        self.each(number..number.saturating_add(1), |entry| time_us = Some(entry.time_us));
        time_us
    }
}
