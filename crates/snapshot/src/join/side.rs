//! One device of one of the two snapshots.

use crate::{
    model::{Segment, TraceEntry},
    rewrite::Tables,
};

/// The segments and the events of one device.
#[derive(Debug, Default)]
pub(super) struct Side {
    pub(super) segments: Vec<Segment>,
    pub(super) trace: Vec<TraceEntry>,
}

impl Side {
    pub(super) fn is_empty(&self) -> bool {
        self.segments.is_empty() && self.trace.is_empty()
    }

    /// Returns PyTorch's side, with the numbers of the merged snapshot's tables.
    pub(super) fn of_torch(segments: Vec<Segment>, mut trace: Vec<TraceEntry>, tables: &Tables) -> Side {
        trace.iter_mut().for_each(|entry| tables.entry(entry));
        Side { segments: segments.iter().map(|segment| tables.segment(segment)).collect(), trace }
    }
}
