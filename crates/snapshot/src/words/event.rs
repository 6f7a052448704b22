//! The types that every room uses: addresses, devices, streams, pools, stacks, actions and events.

use std::{cmp::Ordering, fmt, ops::Sub};

/// An address in a device's memory, in bytes. On the host device it is the value of a pointer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Address(pub u64);

impl Address {
    /// Returns the address `bytes` after this one.
    ///
    /// # Panics
    /// If the sum exceeds 64 bits, which no address in a segment does.
    #[must_use]
    pub fn offset(self, bytes: u64) -> Address {
        Address(self.0.checked_add(bytes).expect("an address stays within 64 bits"))
    }

    /// Returns the address `bytes` after this one, or the last address if the sum exceeds 64 bits.
    ///
    /// Numbers in a file can be anything; for those of an allocator, use [`Address::offset`].
    #[inline]
    #[must_use]
    pub const fn saturating_add(self, bytes: u64) -> Address {
        Address(self.0.saturating_add(bytes))
    }

    /// Returns the bytes from `start` to this address, or 0 if `start` is beyond it.
    #[inline]
    #[must_use]
    pub const fn saturating_sub(self, start: Address) -> u64 {
        self.0.saturating_sub(start.0)
    }
}

/// The bytes between two addresses.
///
/// # Panics
/// As the subtraction of two `u64`, if the second is beyond the first.
impl Sub for Address {
    type Output = u64;

    #[inline]
    fn sub(self, start: Address) -> u64 {
        self.0 - start.0
    }
}

impl From<u64> for Address {
    fn from(address: u64) -> Address {
        Address(address)
    }
}

impl fmt::LowerHex for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::LowerHex::fmt(&self.0, f)
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
    /// The number of pinned host memory in PyTorch's snapshots.
    pub const HOST: DeviceId = DeviceId(-1);

    /// Returns the index into `device_traces`, or `None` for a negative number.
    #[inline]
    #[must_use]
    pub fn index(self) -> Option<usize> {
        usize::try_from(self.0).ok()
    }

    /// Returns the devices 0 to `n_devices` - 1: those of a list with an element for each device.
    pub fn first(n_devices: usize) -> impl DoubleEndedIterator<Item = DeviceId> + ExactSizeIterator {
        (0..n_devices).map(DeviceId::from)
    }

    /// Returns the element of a list with an element for each device; `None` if the list has none for it.
    #[inline]
    pub fn get_in<T>(self, list: &[T]) -> Option<&T> {
        list.get(self.index()?)
    }
}

/// Displays as its number, and pinned host memory as `host`.
impl fmt::Display for DeviceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == DeviceId::HOST { f.pad("host") } else { self.0.fmt(f) }
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
    /// Converts an index; one beyond `i64::MAX`, which no list has, becomes `i64::MAX`.
    fn from(index: usize) -> DeviceId {
        DeviceId(i64::try_from(index).unwrap_or(i64::MAX))
    }
}

/// The handle of a stream, as a signed number like in a snapshot; 0 is the default stream.
///
/// On CUDA it is the bits of the `cudaStream_t` pointer. Streams compare as unsigned handles, because free
/// blocks are sorted by them in this way (docs/caching-allocator.md 2.2).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct StreamId(pub i64);

impl StreamId {
    /// The default stream.
    pub const DEFAULT: StreamId = StreamId(0);

    /// Returns the stream with this handle (the bits of a pointer).
    #[inline]
    #[must_use]
    pub const fn from_handle(handle: u64) -> StreamId {
        StreamId(handle.cast_signed())
    }

    /// Returns the handle as an unsigned number.
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

/// The private pool that memory belongs to, as the pair that PyTorch writes to `segment_pool_id`.
///
/// The pool of a CUDA graph is `(graph, 0)`, and a pool created by the program is `(0, user)`; both numbers
/// start at 1. Memory outside private pools has [`PoolId::DEFAULT`] (docs/caching-allocator.md 2.5).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct PoolId {
    /// The number of the graph capture that created the pool, or 0.
    pub graph: u64,
    /// The number of the pool among those that the program created, or 0.
    pub user: u64,
}

impl PoolId {
    /// The default pool, for all requests that are not routed to a private pool.
    pub const DEFAULT: PoolId = PoolId { graph: 0, user: 0 };

    /// Returns the pool of the graph capture with this number.
    #[must_use]
    pub const fn of_graph(graph: u64) -> PoolId {
        PoolId { graph, user: 0 }
    }

    /// Returns the pool with this number among those that the program created.
    #[must_use]
    pub const fn of_user(user: u64) -> PoolId {
        PoolId { graph: 0, user }
    }
}

impl fmt::Display for PoolId {
    /// Formats the pair as PyTorch does: `(0, 1)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "({}, {})", self.graph, self.user)
    }
}

/// A captured stack: its number in the stack table of one recorder.
///
/// An id comes from the methods of `Track` and is valid only for their recorder. Besides
/// captured stacks there are two special ids: [`StackId::NONE`], and one that marks an allocation which the
/// filters exclude ([`StackId::is_filtered`]).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct StackId(pub u32);

impl StackId {
    /// No stack was captured.
    pub const NONE: StackId = StackId(u32::MAX);

    /// The mark of an allocation that the filters exclude; its free is excluded too.
    pub const FILTERED: StackId = StackId(u32::MAX - 1);

    /// Returns whether a stack was captured.
    #[must_use]
    pub fn is_some(self) -> bool {
        self.0 < StackId::FILTERED.0
    }

    /// Returns whether the filters excluded the allocation that this id belongs to.
    #[must_use]
    pub fn is_filtered(self) -> bool {
        self == StackId::FILTERED
    }

    /// Returns the stack for the events of a free: this one, or the stack of the allocation if no stack was
    /// captured at the free.
    ///
    /// If the allocation was filtered out, its free is filtered out too.
    #[must_use]
    pub fn of_free(self, allocated: StackId) -> StackId {
        if allocated.is_filtered() { allocated } else { self.or(allocated) }
    }

    /// Returns this stack, or `other` if no stack was captured.
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

/// What an event or a trace entry is about, under the names of PyTorch's trace entries
/// (docs/snapshot-format.md 1.5).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
#[non_exhaustive]
pub enum Action {
    /// A block was allocated.
    Alloc,
    /// The program freed a block; a stream may still use it.
    FreeRequested,
    /// No stream uses the block any more; it can be allocated again.
    FreeCompleted,
    /// The allocator got a segment from the device.
    SegmentAlloc,
    /// The allocator returned a segment to the device.
    SegmentFree,
    /// Pages of an expandable segment were backed with memory.
    SegmentMap,
    /// Pages of an expandable segment lost their memory.
    SegmentUnmap,
    /// A request failed; the event's address is the device's free bytes.
    Oom,
    /// A snapshot was taken.
    Snapshot,
    /// A live block was annotated (PyTorch 2.14 and later).
    Annotate,
}

impl Action {
    /// All actions, in the order of their numbers.
    pub const ALL: &'static [Action] = &[
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

    /// Returns the name in a snapshot file, `action`.
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

    /// Returns the action with this name, or `None` if there is none.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Action> {
        Action::ALL.iter().copied().find(|action| action.name() == name)
    }
}

/// An action of an allocator, as it reports it to the recorder.
///
/// The recorder adds the time and the scope. The size is the one that a snapshot file has: the requested
/// bytes for allocations and frees, the whole segment for segments, the rounded request for
/// [`Action::Oom`] (docs/snapshot-format.md 1.5).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Event {
    /// What happened.
    pub action: Action,
    /// The start of the block or segment; for [`Action::Oom`] the device's free bytes.
    pub address: Address,
    /// The size in bytes.
    pub size_bytes: u64,
    /// The stream of the request.
    pub stream: StreamId,
    /// The pool of the block or segment.
    pub pool: PoolId,
    /// The captured stack; dropped if the recorder's options exclude stacks of events.
    pub stack: StackId,
}
