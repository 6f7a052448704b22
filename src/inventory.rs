//! What any allocator can say of its memory at one instant, as plain data.
#![forbid(unsafe_code)]

use crate::event::{Address, DeviceId, PoolId, StackId, StreamId};

/// Which of the two kinds of pool a segment serves (snapshot-format.md 1.2).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum PoolKind {
    /// Requests of at most 1 MiB after rounding.
    Small,
    /// All larger requests.
    Large,
}

impl PoolKind {
    /// The name in the file, `segment_type`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            PoolKind::Small => "small",
            PoolKind::Large => "large",
        }
    }
}

/// Who may use a block (snapshot-format.md 1.3).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum BlockState {
    /// The program holds it.
    ActiveAllocated,
    /// The program gave it back, but another stream may still use it.
    ActivePendingFree,
    /// Free to be handed out.
    Inactive,
}

impl BlockState {
    /// Every state.
    pub const ALL: [BlockState; 3] =
        [BlockState::ActiveAllocated, BlockState::ActivePendingFree, BlockState::Inactive];

    /// The name in the file, `state`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            BlockState::ActiveAllocated => "active_allocated",
            BlockState::ActivePendingFree => "active_pending_free",
            BlockState::Inactive => "inactive",
        }
    }

    /// Whether the block counts as in use.
    #[must_use]
    pub fn is_active(self) -> bool {
        self != BlockState::Inactive
    }
}

/// A piece of a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InventoryBlock {
    /// Where it begins.
    pub address: Address,
    /// Its size after rounding.
    pub size_bytes: u64,
    /// What the program asked for; stale or 0 in an inactive block.
    pub requested_bytes: u64,
    /// Who may use it.
    pub state: BlockState,
    /// The stack of its allocation.
    pub stack: StackId,
}

/// Memory that came from the device in one piece, cut into blocks without gaps.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InventorySegment {
    /// Where it begins.
    pub address: Address,
    /// Its size: the sum of its blocks' sizes.
    pub size_bytes: u64,
    /// The stream whose requests it serves.
    pub stream: StreamId,
    /// The kind of pool it belongs to.
    pub kind: PoolKind,
    /// The private pool it belongs to.
    pub pool: PoolId,
    /// Whether it is a mapped range of an expandable segment.
    pub is_expandable: bool,
    /// The stack of the request that made it.
    pub stack: StackId,
    /// Its pieces, by address.
    pub blocks: Vec<InventoryBlock>,
}

impl InventorySegment {
    /// The bytes of blocks in use, those waiting for a stream included.
    #[must_use]
    pub fn active_bytes(&self) -> u64 {
        self.blocks.iter().filter(|block| block.state.is_active()).map(|block| block.size_bytes).sum()
    }
}

/// What a snapshot's `allocator_settings` says (snapshot-format.md 1.6).
#[derive(Clone, PartialEq, Debug)]
pub struct SettingsReport {
    /// The settings text in force.
    pub conf: String,
    /// Bytes; `None` is unlimited.
    pub max_split_bytes: Option<u64>,
    /// 0 is off.
    pub garbage_collection_threshold: f64,
    /// Whether new memory comes as pages of a reserved range.
    pub expandable_segments: bool,
    /// Whether other threads may allocate while the device is asked for memory.
    pub release_lock_on_device_alloc: bool,
    /// Divisions for each interval from 1 MiB to 32 GiB, doubling; 0 is off.
    pub roundup_power2_divisions: [u32; 16],
}

impl Default for SettingsReport {
    fn default() -> Self {
        SettingsReport {
            conf: String::new(),
            max_split_bytes: None,
            garbage_collection_threshold: 0.0,
            expandable_segments: false,
            release_lock_on_device_alloc: false,
            roundup_power2_divisions: [0; 16],
        }
    }
}

/// An allocator that can be looked at while it stands still.
///
/// This is where allocators and snapshots meet: neither knows the other, so
/// the recorder works around any allocator.
pub trait Inventory: Send + Sync {
    /// The device whose memory this is.
    fn device(&self) -> DeviceId;

    /// Calls `look` once with every segment, by rising address.
    ///
    /// No event of this allocator may be recorded from another thread before
    /// `look` returns; that is what makes a snapshot's trace and its segments
    /// agree. `look` may record events itself; it must not use the allocator,
    /// whose lock is held.
    fn inspect(&self, look: &mut dyn FnMut(&[InventorySegment]));

    /// The settings in force.
    fn settings(&self) -> SettingsReport {
        SettingsReport::default()
    }
}
