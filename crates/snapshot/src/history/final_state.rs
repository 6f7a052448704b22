//! The final state of a device: its segments and the blocks in use when its trace ends.

use crate::{
    model::{Block, Segment, Shape, Snapshot, TraceEntry, Value},
    words::{Address, BlockState, PoolId, SeededMap},
};

/// A block in use at the end.
#[derive(Clone, Copy, Debug)]
pub struct FinalBlock<'a> {
    /// The block, at the address that `placed_blocks` gives it.
    pub block: Block,
    /// Its number among the blocks of its segment.
    pub number: usize,
    /// Its segment.
    pub segment: &'a Segment,
}

/// The segments of one device, and its blocks in use.
#[derive(Debug)]
pub struct FinalState<'a> {
    segments: Vec<(usize, &'a Segment)>,
    blocks: Vec<FinalBlock<'a>>,
    by_address: SeededMap<Address, usize>,
}

impl<'a> FinalState<'a> {
    /// Reads segments, given with their numbers in the file.
    pub fn new(segments: impl Iterator<Item = (usize, &'a Segment)>) -> FinalState<'a> {
        let segments: Vec<(usize, &Segment)> = segments.collect();
        let blocks: Vec<FinalBlock<'_>> =
            segments.iter().flat_map(|(_, segment)| active_blocks(segment)).collect();
        let by_address = blocks.iter().enumerate().map(|(at, block)| (block.block.address, at)).collect();
        FinalState { segments, blocks, by_address }
    }

    /// The segments with their numbers in the file, in the order of the file.
    pub fn segments(&self) -> impl Iterator<Item = (usize, &'a Segment)> {
        self.segments.iter().copied()
    }

    /// The blocks in use, in the order of the file.
    pub fn blocks(&self) -> &[FinalBlock<'a>] {
        &self.blocks
    }

    /// Returns the block in use that starts at an address; if there are several, the last in the file.
    pub fn block(&self, address: Address) -> Option<&FinalBlock<'a>> {
        self.by_address.get(&address).map(|at| &self.blocks[*at])
    }

    /// Returns the state of the block in use that starts at an address.
    pub fn state(&self, address: Address) -> Option<BlockState> {
        self.block(address)?.block.state
    }
}

/// The blocks of a segment with their addresses.
///
/// As viewers place them, blocks follow each other from the segment's address on
/// (`docs/snapshot-format.md` 3.2). The address that a block has itself is the better guess where their
/// sizes do not add up to the segment's, or where only the segment's address is wrong: the first block
/// does not begin with the segment, and the second follows the first.
pub(super) fn placed_blocks(segment: &Segment) -> impl Iterator<Item = (Address, &Block)> {
    let sum = segment.blocks.iter().fold(0, |sum: u64, block| sum.saturating_add(block.size));
    let is_elsewhere = match &*segment.blocks {
        [first, second, ..] => {
            first.address != segment.address && first.address.saturating_add(first.size) == second.address
        }
        // With one block nothing shows which of the two addresses is wrong, and viewers take the segment's.
        _ => false,
    };
    let is_sound = !is_elsewhere && sum == segment.total_size;
    let mut next = segment.address;
    segment.blocks.iter().map(move |block| {
        let address = if is_sound { next } else { block.address };
        next = next.saturating_add(block.size);
        (address, block)
    })
}

/// The blocks in use of a segment.
pub(crate) fn active_blocks(segment: &Segment) -> impl Iterator<Item = FinalBlock<'_>> {
    let placed = placed_blocks(segment).enumerate();
    placed.filter(|(_, (_, block))| block.state.is_some_and(BlockState::is_active)).map(
        move |(number, (address, block))| FinalBlock { block: Block { address, ..*block }, number, segment },
    )
}

/// Returns the private pool that an entry names, from PyTorch 2.12 on.
pub fn pool_of_entry(snapshot: &Snapshot, entry: &TraceEntry) -> Option<PoolId> {
    pool_id(snapshot.shapes.get(entry.shape))
}

/// The private pool that a record names under `pool_id`.
pub(crate) fn pool_id(shape: &Shape) -> Option<PoolId> {
    let [first, second, ..] = shape.value("pool_id")?.as_elements()? else { return None };
    let part = |value: &Value| u64::try_from(value.as_int()?).ok();
    Some(PoolId { graph: part(first)?, user: part(second)? })
}
