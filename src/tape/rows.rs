//! Rows: segments, blocks and sums by stack of one device, 64 bytes each.
#![forbid(unsafe_code)]

use memreel_snapshot::words::{
    Address, BlockState, InventoryBlock, InventorySegment, PoolId, PoolKind, RunSums, StackId, StackSum,
    StreamId,
};

/// The size of a row.
pub(crate) const ROW_BYTES: usize = 64;

type Words = [u64; ROW_BYTES / 8];

/// The kind of a row, in the lowest byte of its first word.
const SEGMENT: u64 = 1;
const BLOCK: u64 = 2;
const SUM: u64 = 3;
/// The moment when the most was live; older tapes have none.
const PEAK: u64 = 4;
/// Flags of a segment: for small blocks, and expandable.
const IS_SMALL: u64 = 1 << 8;
const IS_EXPANDABLE: u64 = 1 << 9;
/// The position of a block's state.
const STATE_SHIFT: u32 = 8;

/// The rows of a device's segments, each followed by its blocks, and of what each stack allocated.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Rows(pub(crate) Vec<u8>);

impl Rows {
    /// Encodes segments and sums, row by row: a heap's list may have millions.
    pub(crate) fn encoded<'l>(
        segments: &'l [InventorySegment],
        sums: &'l RunSums,
    ) -> impl Iterator<Item = [u8; ROW_BYTES]> + 'l {
        let segments =
            segments.iter().flat_map(|one| std::iter::once(segment(one)).chain(one.blocks.iter().map(block)));
        let peak = sums.peak_us.map(|peak_us| [PEAK, peak_us, 0, 0, 0, 0, 0, 0]);
        segments.chain(sums.stacks.iter().map(sum)).chain(peak).map(bytes)
    }

    /// Decodes segments and sums; anything that is not a row is left out.
    #[allow(clippy::cast_possible_truncation)] // The number of a stack has 32 bits.
    pub(crate) fn decoded(&self) -> (Vec<InventorySegment>, RunSums) {
        let (mut segments, mut sums): (Vec<InventorySegment>, RunSums) = Default::default();
        for row in self.0.chunks_exact(ROW_BYTES) {
            let word = |at: usize| u64::from_le_bytes(row[8 * at..8 * at + 8].try_into().unwrap_or_default());
            match word(0) & 0xff {
                SEGMENT => segments.push(InventorySegment {
                    address: Address(word(1)),
                    size_bytes: word(2),
                    stream: StreamId(word(3).cast_signed()),
                    kind: if word(0) & IS_SMALL != 0 { PoolKind::Small } else { PoolKind::Large },
                    pool: PoolId { graph: word(4), user: word(5) },
                    is_expandable: word(0) & IS_EXPANDABLE != 0,
                    stack: StackId(word(6) as u32),
                    blocks: Vec::new(),
                }),
                BLOCK => {
                    let state = BlockState::ALL.get((word(0) >> STATE_SHIFT) as usize & 0xff);
                    if let (Some(segment), Some(state)) = (segments.last_mut(), state) {
                        segment.blocks.push(InventoryBlock {
                            address: Address(word(1)),
                            size_bytes: word(2),
                            requested_bytes: word(3),
                            state: *state,
                            stack: StackId(word(4) as u32),
                        });
                    }
                }
                SUM => sums.stacks.push(StackSum {
                    stack: StackId(word(1) as u32),
                    n_blocks: word(2),
                    bytes: word(3),
                    peak_bytes: word(4),
                    live_bytes: word(5),
                    n_at_peak: word(6),
                    bytes_at_peak: word(7),
                }),
                PEAK => sums.peak_us = Some(word(1)),
                _ => {}
            }
        }
        (segments, sums)
    }
}

fn segment(of: &InventorySegment) -> Words {
    let small = if of.kind == PoolKind::Small { IS_SMALL } else { 0 };
    let expandable = if of.is_expandable { IS_EXPANDABLE } else { 0 };
    let (stream, stack) = (of.stream.0.cast_unsigned(), of.stack.0.into());
    let kind = SEGMENT | small | expandable;
    [kind, of.address.0, of.size_bytes, stream, of.pool.graph, of.pool.user, stack, 0]
}

fn block(of: &InventoryBlock) -> Words {
    let state = BlockState::ALL.iter().position(|state| *state == of.state).unwrap_or(0) as u64;
    let kind = BLOCK | state << STATE_SHIFT;
    [kind, of.address.0, of.size_bytes, of.requested_bytes, of.stack.0.into(), 0, 0, 0]
}

fn sum(of: &StackSum) -> Words {
    let stack = of.stack.0.into();
    [SUM, stack, of.n_blocks, of.bytes, of.peak_bytes, of.live_bytes, of.n_at_peak, of.bytes_at_peak]
}

fn bytes(words: Words) -> [u8; ROW_BYTES] {
    let mut row = [0; ROW_BYTES];
    row.chunks_exact_mut(8).zip(words).for_each(|(to, word)| to.copy_from_slice(&word.to_le_bytes()));
    row
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_and_sums_come_back_equal() {
        let block = |address, state| InventoryBlock {
            address: Address(address),
            size_bytes: 512,
            requested_bytes: 500,
            state,
            stack: StackId(7),
        };
        let segment = InventorySegment {
            address: Address(0x7f00_0000_0000),
            size_bytes: 2 << 20,
            stream: StreamId(-5),
            kind: PoolKind::Small,
            pool: PoolId { graph: 1, user: 2 },
            is_expandable: true,
            stack: StackId::NONE,
            blocks: (0..).zip(BlockState::ALL).map(|(at, state)| block(at * 512, *state)).collect(),
        };
        let large = InventorySegment {
            kind: PoolKind::Large,
            is_expandable: false,
            blocks: vec![],
            ..segment.clone()
        };
        let all = vec![segment, large];
        let stacks = vec![StackSum {
            stack: StackId(3),
            n_blocks: 2,
            bytes: u64::MAX,
            live_bytes: 8,
            peak_bytes: 9,
            n_at_peak: 1,
            bytes_at_peak: 7,
        }];
        for peak_us in [None, Some(0), Some(u64::MAX)] {
            let sums = RunSums { stacks: stacks.clone(), peak_us };
            assert_eq!(Rows(Rows::encoded(&all, &sums).flatten().collect()).decoded(), (all.clone(), sums));
        }
    }
}
