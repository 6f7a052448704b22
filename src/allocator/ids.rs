//! The numbers of an allocator's blocks, pools and reserved ranges.
#![forbid(unsafe_code)]

use std::num::NonZeroU32;

use memreel_snapshot::words::PoolKind;

/// The number of a block in its arena. Numbers of removed blocks are reused.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) struct BlockId(NonZeroU32);

impl BlockId {
    /// Numbers start at 1, so that an optional neighbour takes four bytes.
    pub(super) fn from_index(index: usize) -> BlockId {
        let number = u32::try_from(index).ok().and_then(NonZeroU32::new);
        BlockId(number.expect("blocks are numbered from 1, and fewer than 2^32"))
    }

    #[inline]
    pub(super) fn index(self) -> usize {
        self.0.get() as usize
    }
}

/// The number of a pool in its allocator. Pools come in pairs, the small one
/// first, so an even number is a small pool.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct PoolIndex(pub(super) u32);

impl PoolIndex {
    #[inline]
    pub(super) fn kind(self) -> PoolKind {
        if self.0.is_multiple_of(2) { PoolKind::Small } else { PoolKind::Large }
    }
}

/// The number of an expandable segment in its allocator.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct RangeIndex(pub(super) u32);
