//! The end of one device's history according to its segments, to which `fix` completes a trace.

use crate::{
    history::{DeviceRange, FinalState, Joining, Ranges, final_ranges},
    model::{Segment, Shapes, has_requested_size},
    words::{Address, SeededMap},
};

/// The end of one device's history.
#[derive(Debug)]
pub(super) struct TraceEnd<'a> {
    /// The segments, and the blocks in use.
    pub(super) state: FinalState<'a>,
    /// The ranges of the segments; one that overlaps an earlier one is left out.
    pub(super) ranges: Ranges<DeviceRange>,
    /// By address, the requested bytes of the blocks in use whose file has them.
    requested_bytes: SeededMap<Address, u64>,
}

impl<'a> TraceEnd<'a> {
    /// Reads a device's segments, given with their numbers in the file.
    pub(super) fn new(segments: impl Iterator<Item = (usize, &'a Segment)>, shapes: &Shapes) -> TraceEnd<'a> {
        let state = FinalState::new(segments);
        let ranges = final_ranges(state.segments(), Joining::Joined);
        let blocks = state.blocks().iter().map(|block| block.block);
        let known = blocks.filter(|block| has_requested_size(shapes.get(block.shape)));
        let requested_bytes = known.map(|block| (block.address, block.requested_size)).collect();
        TraceEnd { state, ranges, requested_bytes }
    }

    /// Returns the requested bytes of the block in use at an address; `None` if its file does not have them.
    pub(super) fn requested_bytes(&self, address: Address) -> Option<u64> {
        self.requested_bytes.get(&address).copied().filter(|bytes| *bytes > 0)
    }
}
