//! The words every room shares: what happened, where, how large, on which device and stream.
#![forbid(unsafe_code)]

use std::{cmp::Ordering, fmt};

/// An address in a device's memory, in bytes. On the host device it is a real pointer value.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Address(pub u64);

impl Address {
    /// The address `bytes` further on.
    ///
    /// # Panics
    /// If the sum leaves 64 bits; no segment reaches that far.
    #[must_use]
    pub fn offset(self, bytes: u64) -> Address {
        Address(self.0.checked_add(bytes).expect("an address stays within 64 bits"))
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

/// The number of a device: its index in a snapshot's `device_traces`, or -1 for pinned host memory.
///
/// A plain integer converts into it, so functions that take `impl Into<DeviceId>` accept a literal:
///
/// ```
/// use memreel::DeviceId;
///
/// assert_eq!(DeviceId::from(2), DeviceId(2));
/// assert_eq!(DeviceId(2).index(), Some(2));
/// assert_eq!(DeviceId::HOST.index(), None);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct DeviceId(pub i64);

impl DeviceId {
    /// Pinned host memory, as snapshots of PyTorch number it.
    pub const HOST: DeviceId = DeviceId(-1);

    /// The index into `device_traces`, or `None` for a negative number.
    #[inline]
    #[must_use]
    pub fn index(self) -> Option<usize> {
        usize::try_from(self.0).ok()
    }
}

impl fmt::Display for DeviceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl From<i64> for DeviceId {
    fn from(number: i64) -> DeviceId {
        DeviceId(number)
    }
}

impl From<i32> for DeviceId {
    fn from(number: i32) -> DeviceId {
        DeviceId(number.into())
    }
}

impl From<u16> for DeviceId {
    fn from(number: u16) -> DeviceId {
        DeviceId(number.into())
    }
}

impl From<usize> for DeviceId {
    /// An index beyond `i64::MAX`, which no list has, becomes `i64::MAX`.
    fn from(index: usize) -> DeviceId {
        DeviceId(i64::try_from(index).unwrap_or(i64::MAX))
    }
}

/// The handle of a stream as a snapshot shows it; 0 is the default stream.
///
/// On CUDA it is the bits of the `cudaStream_t` pointer. Streams compare as
/// unsigned handles: free blocks are kept in that order (caching-allocator.md 2.2).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct StreamId(pub i64);

impl StreamId {
    /// The stream on which work runs unless another one is named.
    pub const DEFAULT: StreamId = StreamId(0);

    /// The stream with this handle: a pointer's bits.
    #[inline]
    #[must_use]
    pub const fn from_handle(handle: u64) -> StreamId {
        StreamId(handle.cast_signed())
    }

    /// The bits of the handle.
    #[inline]
    #[must_use]
    pub const fn handle(self) -> u64 {
        self.0.cast_unsigned()
    }
}

impl Ord for StreamId {
    #[inline]
    fn cmp(&self, other: &StreamId) -> Ordering {
        self.handle().cmp(&other.handle())
    }
}

impl PartialOrd for StreamId {
    #[inline]
    fn partial_cmp(&self, other: &StreamId) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl From<i64> for StreamId {
    fn from(number: i64) -> StreamId {
        StreamId(number)
    }
}

impl From<i32> for StreamId {
    fn from(number: i32) -> StreamId {
        StreamId(number.into())
    }
}

impl From<u16> for StreamId {
    fn from(number: u16) -> StreamId {
        StreamId(number.into())
    }
}

impl From<usize> for StreamId {
    fn from(handle: usize) -> StreamId {
        StreamId::from_handle(handle as u64)
    }
}

/// The private pool that memory belongs to, as the pair that PyTorch writes into `segment_pool_id`.
///
/// A pool of CUDA graphs is `(graph, 0)`, a pool that the program made is `(0, user)`, each counted
/// from 1; [`PoolId::DEFAULT`] is no private pool (caching-allocator.md 8.1).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct PoolId {
    /// The number of the capture that made the pool, or 0.
    pub graph: u64,
    /// The number of the pool among those that the program made, or 0.
    pub user: u64,
}

impl PoolId {
    /// The pool that serves every request that no private pool serves.
    pub const DEFAULT: PoolId = PoolId { graph: 0, user: 0 };

    /// The pool of the capture with this number.
    #[must_use]
    pub const fn of_graph(graph: u64) -> PoolId {
        PoolId { graph, user: 0 }
    }

    /// The pool with this number among those that the program made.
    #[must_use]
    pub const fn of_user(user: u64) -> PoolId {
        PoolId { graph: 0, user }
    }
}

impl fmt::Display for PoolId {
    /// As PyTorch writes it: `(0, 1)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "({}, {})", self.graph, self.user)
    }
}

/// A captured stack, as a number that the recorder's stack table hands out.
///
/// `StackId::NONE` says that no stack was captured. An id means nothing to a
/// recorder that did not make it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct StackId(pub(crate) u32);

impl StackId {
    /// No stack was captured.
    pub const NONE: StackId = StackId(u32::MAX);

    /// Of an allocation that the filters leave out; its frees are left out too.
    pub(crate) const FILTERED: StackId = StackId(u32::MAX - 1);

    /// Whether a stack was captured.
    #[must_use]
    pub fn is_some(self) -> bool {
        self.0 < StackId::FILTERED.0
    }

    /// Whether the filters left out the allocation that this was captured for.
    #[must_use]
    pub fn is_filtered(self) -> bool {
        self == StackId::FILTERED
    }

    /// What a free shows: the stack at hand, or the allocation's where that is
    /// absent. Who was left out at its allocation stays so.
    #[must_use]
    pub fn of_free(self, allocated: StackId) -> StackId {
        if allocated.is_filtered() { allocated } else { self.or(allocated) }
    }

    /// This stack, or the other where this one is absent.
    #[must_use]
    pub fn or(self, other: StackId) -> StackId {
        if self.is_some() { self } else { other }
    }
}

impl Default for StackId {
    fn default() -> Self {
        StackId::NONE
    }
}

/// What happened, under the names of a snapshot's trace entries (snapshot-format.md 1.5).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum Action {
    /// A block was handed to the program.
    Alloc,
    /// The program gave a block back; a stream may still use it.
    FreeRequested,
    /// No stream uses the block any more: it can be handed out again.
    FreeCompleted,
    /// The device gave a segment.
    SegmentAlloc,
    /// A segment went back to the device.
    SegmentFree,
    /// Pages of an expandable segment were backed with memory.
    SegmentMap,
    /// Pages of an expandable segment lost their memory.
    SegmentUnmap,
    /// A request failed; the address field holds the device's free bytes.
    Oom,
    /// A snapshot was taken.
    Snapshot,
    /// A live block was annotated (PyTorch 2.14 and later).
    Annotate,
}

impl Action {
    /// Every action, in the order of their numbers.
    pub const ALL: [Action; 10] = [
        Action::Alloc,
        Action::FreeRequested,
        Action::FreeCompleted,
        Action::SegmentAlloc,
        Action::SegmentFree,
        Action::SegmentMap,
        Action::SegmentUnmap,
        Action::Oom,
        Action::Snapshot,
        Action::Annotate,
    ];

    /// The name in the file.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Action::Alloc => "alloc",
            Action::FreeRequested => "free_requested",
            Action::FreeCompleted => "free_completed",
            Action::SegmentAlloc => "segment_alloc",
            Action::SegmentFree => "segment_free",
            Action::SegmentMap => "segment_map",
            Action::SegmentUnmap => "segment_unmap",
            Action::Oom => "oom",
            Action::Snapshot => "snapshot",
            Action::Annotate => "annotate",
        }
    }

    /// The action of that name, if there is one.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Action> {
        Action::ALL.into_iter().find(|action| action.name() == name)
    }
}

/// One thing an allocator did, as it tells the recorder.
///
/// The recorder adds the time and the scope. Sizes are those of the file: the
/// requested bytes for allocs and frees, the whole segment for segments, the
/// rounded request for `oom` (snapshot-format.md 1.5).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Event {
    /// What happened.
    pub action: Action,
    /// Where; for [`Action::Oom`] the device's free bytes.
    pub address: Address,
    /// How much.
    pub size_bytes: u64,
    /// On which stream.
    pub stream: StreamId,
    /// In which pool.
    pub pool: PoolId,
    /// The stack offered with it; kept only if the recorder's context asks for it.
    pub stack: StackId,
}
