//! A live block in 16 bytes, because a heap has millions: what blocks have in common is in a table beside them.
#![forbid(unsafe_code)]

use memreel_snapshot::words::{PoolId, SeededMap, StackId, StreamId};

use super::sums::Counted;

/// So many kinds are compared one by one, before they are looked up: a heap has four.
const FEW: usize = 4;

/// A block that is in use.
#[derive(Clone, Copy, Debug)]
pub(super) struct LiveBlock {
    pub(super) requested_bytes: u64,
    pub(super) stack: StackId,
    /// The number of its kind in [`BlockKinds`].
    kind: u32,
}

/// Everything about a block except its address, its bytes and its stack.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct BlockKind {
    /// The size after rounding less the requested bytes, modulo 2^64, if the size is known.
    pub(super) rounding_bytes: Option<u64>,
    pub(super) stream: StreamId,
    pub(super) pool: PoolId,
    pub(super) is_pending: bool,
    pub(super) counted: Counted,
}

/// The kinds of all blocks so far.
#[derive(Clone, Debug, Default)]
pub(super) struct BlockKinds {
    all: Vec<BlockKind>,
    numbers: SeededMap<BlockKind, u32>,
}

impl BlockKinds {
    /// Returns a block of a kind.
    pub(super) fn block(&mut self, requested_bytes: u64, stack: StackId, kind: BlockKind) -> LiveBlock {
        LiveBlock { requested_bytes, stack, kind: self.number(kind) }
    }

    /// Returns the kind of a block.
    pub(super) fn of(&self, block: &LiveBlock) -> &BlockKind {
        &self.all[block.kind as usize]
    }

    /// Changes the kind of a block.
    pub(super) fn change(&mut self, block: &mut LiveBlock, change: impl FnOnce(&mut BlockKind)) {
        let mut kind = *self.of(block);
        change(&mut kind);
        block.kind = self.number(kind);
    }

    /// Returns the size of a block after rounding, if it is known.
    pub(super) fn size_bytes(&self, block: &LiveBlock) -> Option<u64> {
        self.of(block).rounding_bytes.map(|more| block.requested_bytes.wrapping_add(more))
    }

    fn number(&mut self, kind: BlockKind) -> u32 {
        // There are at most as many kinds as blocks, of which 2^32 do not fit in memory.
        let number = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
        if let Some(at) = self.all.iter().take(FEW).position(|known| *known == kind) {
            return number(at);
        }
        *self.numbers.entry(kind).or_insert_with(|| {
            self.all.push(kind);
            number(self.all.len() - 1)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_block_keeps_its_kind() {
        let kind = |n: u64| BlockKind {
            rounding_bytes: (!n.is_multiple_of(3)).then_some(n.wrapping_neg()),
            stream: StreamId(n as i64 % 5),
            pool: PoolId { graph: n, user: 0 },
            is_pending: !n.is_multiple_of(2),
            counted: Counted::Nothing,
        };
        let mut kinds = BlockKinds::default();
        let mut blocks: Vec<LiveBlock> =
            (0..40).map(|n| kinds.block(u64::MAX - n % 2, StackId(n as u32), kind(n % 20))).collect();
        kinds.change(&mut blocks[7], |of| *of = kind(3));
        for (n, block) in (0..).zip(&blocks) {
            let expected = if n == 7 { kind(3) } else { kind(n % 20) };
            assert_eq!((*kinds.of(block), block.stack), (expected, StackId(n as u32)));
            let size_bytes = expected.rounding_bytes.map(|more| (u64::MAX - n % 2).wrapping_add(more));
            assert_eq!(kinds.size_bytes(block), size_bytes);
        }
        assert_eq!(kinds.all.len(), 20);
    }
}
