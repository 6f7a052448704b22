//! The end of one device's history as its segments describe it: `fix` completes a trace to it.

use crate::{
    history::{DeviceRange, FinalState, Ranges, final_ranges},
    snapshot::Segment,
};

/// The end of one device's history.
#[derive(Debug)]
pub(super) struct TraceEnd<'a> {
    /// The segments, and the blocks in use.
    pub(super) state: FinalState<'a>,
    /// The ranges of the segments; one that overlaps an earlier one is left out.
    pub(super) ranges: Ranges<DeviceRange>,
}

impl<'a> TraceEnd<'a> {
    /// Reads a device's segments, given with their numbers in the file.
    pub(super) fn new(segments: impl Iterator<Item = (usize, &'a Segment)>) -> TraceEnd<'a> {
        let state = FinalState::new(segments);
        let ranges = final_ranges(state.segments());
        TraceEnd { state, ranges }
    }
}
