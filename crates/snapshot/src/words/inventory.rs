//! The segments and blocks of an allocator at one moment, as plain data.

use crate::words::{Address, Bytes, DeviceId, PoolId, StackId, StreamId};

/// The kind of pool that a segment belongs to (docs/snapshot-format.md 1.2).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum PoolKind {
    /// Requests of at most 1 MiB after rounding.
    Small,
    /// All larger requests.
    Large,
}

impl PoolKind {
    /// Returns the name in a snapshot file, `segment_type`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            PoolKind::Small => "small",
            PoolKind::Large => "large",
        }
    }
}

/// Whether a block is in use (docs/snapshot-format.md 1.3).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum BlockState {
    /// The program has it.
    ActiveAllocated,
    /// The program freed it, but a stream may still use it.
    ActivePendingFree,
    /// Free; it can be allocated.
    Inactive,
}

impl BlockState {
    /// All states.
    pub const ALL: &'static [BlockState] =
        &[BlockState::ActiveAllocated, BlockState::ActivePendingFree, BlockState::Inactive];

    /// Returns the name in a snapshot file, `state`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            BlockState::ActiveAllocated => "active_allocated",
            BlockState::ActivePendingFree => "active_pending_free",
            BlockState::Inactive => "inactive",
        }
    }

    /// Returns whether the block counts as in use; a block whose free is pending does.
    #[must_use]
    pub fn is_active(self) -> bool {
        self != BlockState::Inactive
    }
}

/// A block of a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InventoryBlock {
    /// The start of the block.
    pub address: Address,
    /// The size in bytes, after rounding.
    pub size_bytes: u64,
    /// The bytes that the program requested; in an inactive block a former request's or 0.
    pub requested_bytes: u64,
    /// Whether the block is in use.
    pub state: BlockState,
    /// The stack of its latest allocation.
    pub stack: StackId,
}

/// Memory that the allocator got from the device in one piece, divided into blocks without gaps.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InventorySegment {
    /// The start of the segment.
    pub address: Address,
    /// The size in bytes; the sum of the blocks' sizes.
    pub size_bytes: u64,
    /// The stream whose requests it serves.
    pub stream: StreamId,
    /// The kind of pool it belongs to.
    pub kind: PoolKind,
    /// The private pool it belongs to.
    pub pool: PoolId,
    /// Whether it is a mapped range of an expandable segment.
    pub is_expandable: bool,
    /// The stack of the request for which it was allocated.
    pub stack: StackId,
    /// Its blocks, by rising address.
    pub blocks: Vec<InventoryBlock>,
}

impl InventorySegment {
    /// Returns what shows blocks without segments ([`Inventory::has_segments`]).
    pub fn of_blocks(blocks: Vec<InventoryBlock>) -> InventorySegment {
        InventorySegment {
            address: Address(0),
            size_bytes: 0,
            stream: StreamId::DEFAULT,
            kind: PoolKind::Small,
            pool: PoolId::DEFAULT,
            is_expandable: false,
            stack: StackId::NONE,
            blocks,
        }
    }

    /// Returns the bytes in blocks in use, including blocks whose free is pending.
    #[must_use]
    pub fn active_bytes(&self) -> u64 {
        self.blocks
            .iter()
            .filter(|block| block.state.is_active())
            .map(|block| block.size_bytes)
            .sum::<Bytes>()
            .0
    }
}

/// What was allocated over a whole recording, and what of it was live when the device had the most.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RunSums {
    /// What each stack allocated.
    pub stacks: Vec<StackSum>,
    /// When the device had the most, in microseconds since the Unix epoch; 0 if that was before the first event. `None` if it is
    /// not known, and then no stack has anything at the peak.
    pub peak_us: Option<u64>,
}

/// What was allocated with one stack over a whole recording.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StackSum {
    /// The stack of the allocations.
    pub stack: StackId,
    /// The number of blocks.
    pub n_blocks: u64,
    /// The bytes that were requested for them.
    pub bytes: u64,
    /// How many of these bytes are live.
    pub live_bytes: u64,
    /// The most of these bytes that were live at once.
    pub peak_bytes: u64,
    /// The number of blocks with this stack that were live when the device had the most, those from before the recording
    /// included.
    pub n_at_peak: u64,
    /// The bytes that were requested for these.
    pub bytes_at_peak: u64,
}

/// The settings of an allocator, for a snapshot's `allocator_settings` (docs/snapshot-format.md 1.6).
#[derive(Clone, PartialEq, Debug)]
pub struct SettingsReport {
    /// The settings as a text, such as `expandable_segments:True`.
    pub conf: String,
    /// The size in bytes from which blocks are not split; `None` is unlimited.
    pub max_split_bytes: Option<u64>,
    /// The fraction of the memory limit from which unused segments are freed; 0 is off.
    pub garbage_collection_threshold: f64,
    /// Whether segments are ranges of addresses that are mapped as they are needed.
    pub expandable_segments: bool,
    /// Whether other threads may allocate while a thread waits for memory of the device.
    pub release_lock_on_device_alloc: bool,
    /// The number of divisions of each interval between powers of two, from 1 MiB to 32 GiB; 0 is off.
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

/// Shows the segments and blocks of an allocator at one time.
///
/// Snapshots and allocators do not depend on each other, only on this trait; so a snapshot can be taken of
/// any allocator that implements it.
pub trait Inventory: Send + Sync {
    /// Returns the device whose memory this is.
    fn device(&self) -> DeviceId;

    /// Calls `look` once with all segments, by rising address.
    ///
    /// Until `look` returns, no event of this allocator may be recorded by another thread; the implementation
    /// has its lock during the call. So the trace and the segments of a snapshot agree. `look` may record
    /// events itself, but it must not use the allocator.
    fn inspect(&self, look: &mut dyn FnMut(&[InventorySegment]));

    /// Calls `cut` once, with the bytes in use, and returns all segments as they were at that moment.
    ///
    /// While `cut` runs no event of this allocator is recorded by another thread, as in [`Inventory::inspect`], by which the
    /// default implementation does this. An allocator with millions of blocks may release its lock before it has copied
    /// them.
    fn segments_at(&self, cut: &mut dyn FnMut(u64)) -> Vec<InventorySegment> {
        let mut all = Vec::new();
        self.inspect(&mut |segments| {
            cut(segments.iter().map(InventorySegment::active_bytes).sum::<Bytes>().0);
            all = segments.to_vec();
        });
        all
    }

    /// Returns whether the allocator knows the segments of its memory. The default implementation returns `true`.
    ///
    /// The system's allocator does not know them. If this returns `false`, [`Inventory::inspect`] shows one segment, whose
    /// blocks are the live ones in any order and whose other fields count for nothing. A snapshot then has a
    /// segment for each run of adjacent pages that hold a live block or one that an event is about. If
    /// allocations are sampled, the blocks that were not are in no segment, and answers multiply the bytes of each
    /// recorded block by its `sample_weight`.
    fn has_segments(&self) -> bool {
        true
    }

    /// Returns the mean sampling interval in bytes, if the allocator has one that replaces that of the recorder. The
    /// default implementation returns `None`.
    fn sample_bytes(&self) -> Option<u64> {
        None
    }

    /// Returns what was allocated with each stack since the recording began, also by events that are lost; `None` if that is not
    /// known. The default implementation returns `None`.
    fn allocated(&self) -> Option<RunSums> {
        None
    }

    /// Returns the current settings. The default implementation returns [`SettingsReport::default`].
    fn settings(&self) -> SettingsReport {
        SettingsReport::default()
    }
}
