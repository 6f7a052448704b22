//! What the file's segments say is in use on one device when its trace ends.

use rustc_hash::FxHashMap;

use super::ranges::{Origin, Ranges, Span};
use crate::{
    event::StreamId,
    inventory::BlockState,
    snapshot::{Block, Segment},
};

/// A block in use at the end, with the stream of its segment.
#[derive(Clone, Copy, Debug)]
pub(super) struct FinalBlock {
    pub(super) block: Block,
    pub(super) stream: StreamId,
}

/// The end of one device's history.
#[derive(Debug, Default)]
pub(super) struct Finals {
    pub(super) ranges: Ranges,
    /// By address, in the order of the file.
    pub(super) blocks: Vec<FinalBlock>,
    by_address: FxHashMap<u64, usize>,
}

impl Finals {
    /// Of the segments that belong to a device. Blocks follow each other from the
    /// segment's address on, as the viewer places them (snapshot-format.md 3.2).
    pub(super) fn of<'a>(segments: impl Iterator<Item = (usize, &'a Segment)>) -> Finals {
        let mut finals = Finals::default();
        for (number, segment) in segments {
            let mut address = segment.address;
            for block in &segment.blocks {
                if block.state.is_some_and(BlockState::is_active) {
                    let block = Block { address, ..*block };
                    finals.by_address.insert(address, finals.blocks.len());
                    finals.blocks.push(FinalBlock { block, stream: segment.stream });
                }
                address = address.saturating_add(block.size);
            }
            let (start, end) = (segment.address, segment.address.saturating_add(segment.total_size));
            if end > start && finals.ranges.overlapping(start, end).is_none() {
                let (stream, is_expandable) = (segment.stream, segment.is_expandable);
                finals
                    .ranges
                    .insert(start, Span { end, stream, is_expandable, origin: Origin::Segment(number) });
            }
        }
        finals
    }

    /// The block in use that begins at an address.
    pub(super) fn block(&self, address: u64) -> Option<&FinalBlock> {
        self.by_address.get(&address).map(|at| &self.blocks[*at])
    }

    /// Whether its blocks are as they are at the trace's end in this state.
    pub(super) fn state(&self, address: u64) -> Option<BlockState> {
        self.block(address)?.block.state
    }
}
