//! The records of a snapshot: trace entries, segments, blocks and annotations.

use super::{shape::ShapeId, stack_table::StackIndex, value::Text};
use crate::words::{Action, Address, BlockState, DeviceId, PoolId, PoolKind, StreamId};

/// One event of a device's trace (docs/snapshot-format.md 1.5).
///
/// A key that the file lacks, or has with a value of the wrong type, leaves
/// its field at the default; [`Shape::has`](super::raw::Shape::has) distinguishes the two.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TraceEntry {
    /// The first address of its memory; for `oom` see [`TraceEntry::device_free_bytes`].
    pub address: Address,
    /// The size of its memory, in bytes; for `oom`, of the request.
    pub size: u64,
    /// The stream that it was made for.
    pub stream: StreamId,
    /// Its time, in microseconds since the Unix epoch.
    pub time_us: i64,
    /// Its frames; `None` without this key.
    pub stack: Option<StackIndex>,
    /// Its keys, and the values that it shares with other entries (`user_metadata`, `pool_id`, …).
    pub shape: ShapeId,
    /// Its action; `None` if the text is not one of the ten that PyTorch writes.
    pub action: Option<Action>,
}

impl TraceEntry {
    /// Returns the first address past the memory of the event.
    #[inline]
    #[must_use]
    pub fn end(&self) -> Address {
        self.address.saturating_add(self.size)
    }

    /// Returns the addresses of the memory, which is at least one byte: the first, and the first one past.
    #[inline]
    pub(crate) fn span(&self) -> (Address, Address) {
        (self.address, self.address.saturating_add(self.size.max(1)))
    }

    /// Returns the free bytes of the device at an `oom`, whose record has them instead of an address.
    #[must_use]
    pub fn device_free_bytes(&self) -> u64 {
        self.address.0
    }
}

impl Default for TraceEntry {
    fn default() -> Self {
        TraceEntry {
            address: Address(0),
            size: 0,
            stream: StreamId::DEFAULT,
            time_us: 0,
            stack: None,
            shape: ShapeId(0),
            action: None,
        }
    }
}

/// Memory that the device provided in one piece (docs/snapshot-format.md 1.2).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Segment {
    /// The device's ordinal; -1 for pinned host memory.
    pub device: DeviceId,
    /// Its first address.
    pub address: Address,
    /// Its size, in bytes.
    pub total_size: u64,
    /// Bytes in allocated blocks, according to the file.
    pub allocated_size: u64,
    /// Bytes in blocks in use, according to the file.
    pub active_size: u64,
    /// Requested bytes of blocks in use, according to the file.
    pub requested_size: u64,
    /// The stream whose requests use it.
    pub stream: StreamId,
    /// `segment_type`; `None` if the text is neither `"small"` nor `"large"`.
    pub kind: Option<PoolKind>,
    /// The private pool it belongs to.
    pub pool: PoolId,
    /// Whether it is a mapped range of an expandable segment.
    pub is_expandable: bool,
    /// The frames of the request that created it; `None` without this key.
    pub stack: Option<StackIndex>,
    /// Its pieces, in the order of the file.
    pub blocks: Vec<Block>,
    /// Its keys, and what else its dictionary held.
    pub shape: ShapeId,
}

/// A piece of a segment (docs/snapshot-format.md 1.3).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Block {
    /// Its first address.
    pub address: Address,
    /// Its size after rounding.
    pub size: u64,
    /// The requested bytes; stale in an inactive block.
    pub requested_size: u64,
    /// The frames of its allocation; `None` without the key.
    pub stack: Option<StackIndex>,
    /// Its keys, and what else its dictionary held.
    pub shape: ShapeId,
    /// The state of the block; `None` if the text is none of the three.
    pub state: Option<BlockState>,
}

/// The start or the end of a scope (docs/snapshot-format.md 1.7).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Annotation {
    /// `"START"` or `"END"`.
    pub stage: Text,
    /// The scope's name.
    pub name: Text,
    /// The device it was opened on.
    pub device: DeviceId,
    /// The time, in microseconds since the Unix epoch.
    pub time_us: i64,
    /// Its keys, and what else its dictionary held.
    pub shape: ShapeId,
}
