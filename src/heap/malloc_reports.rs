//! Reports of a `malloc` other than the program's Rust allocator, such as the C library's.
#![forbid(unsafe_code)]

use super::process_heap::ProcessHeap;
use crate::{process::own_memory, recorder::Recorder};
use memreel_snapshot::words::{DeviceId, Inventory, usage};

/// The process's heap, for a library that wraps its `malloc`.
///
/// The rules are those of [`Heap`](crate::Heap): report an allocation after it, and a free before the memory can be
/// allocated again; a `realloc` is a move ([`MallocReports::begin_move`]). A process has one heap, which belongs to the
/// first recorder that was connected. No call waits for a lock that a caller may have. What memreel allocates meanwhile
/// may be reported too; it is not recorded.
///
/// ```
/// use memreel::{DeviceId, integrate::MallocReports, recorder::{Recording, Recorder}, snapshot};
///
/// let recorder = Recorder::new();
/// recorder.record_history(&Recording::all());
/// let heap = MallocReports::connect(&recorder, DeviceId(1)).unwrap();
/// heap.allocated(0x5000, 100);
/// let _fails = heap.begin_move(0x5000).unwrap(); // a realloc that fails changes nothing
/// let moves = heap.begin_move(0x5000).unwrap();
/// heap.moved(moves);
/// heap.allocated(0x6000, 200);
/// let seen = snapshot::collect(&recorder, [heap.inventory()], Default::default());
/// assert_eq!(seen.device_traces[1].len(), 5, "the pages; an allocation, its free in two events, an allocation");
/// ```
#[derive(Clone, Copy, Debug)]
pub struct MallocReports {
    heap: &'static ProcessHeap,
    has_stacks: bool,
}

/// A request that may move a block, such as a `realloc`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BlockMove {
    /// The address of the block before the move.
    pub address: u64,
    /// The number of the request. Two requests for one address have different numbers.
    pub number: u32,
}

impl MallocReports {
    /// Makes the heap a device of a recorder; `None` if it already belongs to another recorder.
    #[must_use]
    pub fn connect(recorder: &Recorder, device: impl Into<DeviceId>) -> Option<MallocReports> {
        let device = device.into();
        super::connect(recorder, device);
        let heap = ProcessHeap::get().filter(|heap| heap.is_of(recorder))?;
        recorder.describe_device(device, usage::HEAP, "");
        own_memory::set_heap(device);
        Some(MallocReports { heap, has_stacks: true })
    }

    /// Returns a copy whose reports capture this thread's stack, or do not: a caller may be on a stack that has no room
    /// for a capture.
    #[must_use]
    #[inline]
    pub fn with_stacks(self, has_stacks: bool) -> MallocReports {
        MallocReports { has_stacks, ..self }
    }

    /// Reports an allocation. A block of 0 bytes is recorded as one of 1 byte, because a snapshot has no empty blocks.
    #[inline]
    pub fn allocated(self, address: u64, bytes: u64) {
        self.heap.allocated(address, bytes.max(1), 0, self.has_stacks);
    }

    /// Reports a free; returns whether the block's allocation was recorded.
    #[inline]
    pub fn freed(self, address: u64) -> bool {
        self.heap.freed(address, self.has_stacks)
    }

    /// Reports that a block may move, before it does; `None` if its allocation was not recorded. Unless
    /// [`MallocReports::moved`] follows, nothing changes.
    #[must_use]
    #[inline]
    pub fn begin_move(self, address: u64) -> Option<BlockMove> {
        self.heap.begin_move(address).map(|number| BlockMove { address, number })
    }

    /// Reports that a block has moved, before the allocation at its new address is reported.
    #[inline]
    pub fn moved(self, BlockMove { address, number }: BlockMove) {
        self.heap.moved(address, number, self.has_stacks);
    }

    /// Reports that the program mapped memory itself, after it did. The stack tells apart what the kernel reports for
    /// the range. It is not a block of the heap.
    pub fn mapped(self, address: u64, bytes: u64) {
        self.heap.mapped(address..address.saturating_add(bytes), self.has_stacks);
    }

    /// Reports that the program unmaps memory, before it does.
    pub fn unmapped(self, address: u64, bytes: u64) {
        self.heap.unmapped(address..address.saturating_add(bytes));
    }

    /// Returns the heap's blocks, for snapshots.
    #[must_use]
    pub fn inventory(self) -> &'static dyn Inventory {
        self.heap
    }
}
