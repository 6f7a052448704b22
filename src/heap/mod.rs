//! The program's heap, recorded as a device of its own.
//!
//! [`Heap`] is an allocator around another. It reports to the one [`ProcessHeap`], whose table knows every recorded block that is
//! live, so a free finds its size and its stack.

mod blocks;
mod malloc_reports;
#[cfg(target_os = "linux")]
mod probes;
mod process_heap;
mod recorded;

use std::alloc::{GlobalAlloc, Layout, System};

use process_heap::ProcessHeap;

pub use malloc_reports::{BlockMove, MallocReports};
pub(crate) use process_heap::{connect, inventory_of};
pub use recorded::{Allocate, Recorded};

/// The program's allocator, which records what the program allocates.
///
/// With these two lines the heap is a device in the snapshots of [`save`](crate::save) and `memreel::snapshot`, next to
/// the devices of the process's reel:
///
/// ```
/// #[global_allocator]
/// static HEAP: memreel::Heap = memreel::Heap::new();
///
/// # fn main() -> memreel::Result<()> {
/// use memreel::{Action, recorder::Recording};
///
/// memreel::record_history(&Recording::all())?;
/// let numbers = vec![7_u64; 1000];
/// let snapshot = memreel::snapshot()?;
/// let of_heap = &snapshot.device_traces[1]; // the reel's own device is number 0
/// assert!(of_heap.iter().any(|entry| entry.action == Some(Action::Alloc) && entry.size == 8000));
/// # drop(numbers);
/// # Ok(())
/// # }
/// ```
///
/// Its number is the first one after those of the reel: 1, unless `memreel` was changed to have more devices. Recording
/// starts with [`record_history`](crate::record_history); until then an allocation costs one load and one branch.
/// Blocks that were allocated earlier are not in the snapshot, nor are their frees.
///
/// - Sizes are the requested sizes. A `realloc` is a free and an allocation, in place or not.
/// - A snapshot has a segment for each run of adjacent pages (of 4 KiB) that hold a live or a recorded block, because
///   the system's allocator does not report its own segments. Memory between the blocks may be in use unrecorded.
/// - What memreel allocates for itself is not recorded, nor what a signal handler allocates while it interrupts memreel
///   on the same thread. A recorded block that such a handler frees counts as live until its address is used again.
/// - Allocations before `main`, after it and while a thread's storage is destroyed are recorded like all others.
///
/// For production, [`Heap::sample_every`] records one allocation in N bytes.
#[derive(Debug, Default)]
pub struct Heap<A = System> {
    inner: A,
    sample_bytes: u64,
}

impl Heap {
    /// Creates a heap that allocates from the system.
    #[must_use]
    pub const fn new() -> Heap {
        Heap::with(System)
    }
}

impl<A> Heap<A> {
    /// Creates a heap that allocates from `inner`.
    ///
    /// ```
    /// use std::alloc::System;
    ///
    /// #[global_allocator]
    /// static HEAP: memreel::Heap<System> = memreel::Heap::with(System); // or jemalloc, mimalloc, …
    /// # fn main() {}
    /// ```
    #[must_use]
    pub const fn with(inner: A) -> Heap<A> {
        Heap { inner, sample_bytes: 0 }
    }

    /// Samples the heap's allocations: on average one in every `bytes` allocated bytes is recorded, with its free.
    /// Default: 0, all are recorded unless [`Recording::sample_every`](crate::recorder::Recording::sample_every) samples
    /// all devices.
    ///
    /// An allocation that is not recorded costs a subtraction in thread-local storage, and its free reads one byte. 512
    /// KiB suits production.
    ///
    /// ```
    /// #[global_allocator]
    /// static HEAP: memreel::Heap = memreel::Heap::new().sample_every(512 << 10);
    /// # fn main() {}
    /// ```
    #[must_use]
    pub const fn sample_every(mut self, bytes: u64) -> Heap<A> {
        self.sample_bytes = bytes;
        self
    }

    #[inline(always)]
    fn allocated(&self, block: *mut u8, bytes: usize) {
        if let Some(heap) = ProcessHeap::get()
            && !block.is_null()
        {
            heap.allocated(block.addr() as u64, bytes as u64, self.sample_bytes, true);
        }
    }
}

// SAFETY: memory comes from and goes to the inner allocator, with the layouts of the requests. Recording neither
// unwinds nor keeps a reference to the memory.
unsafe impl<A: GlobalAlloc> GlobalAlloc for Heap<A> {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise about the layout is passed on.
        let block = unsafe { self.inner.alloc(layout) };
        self.allocated(block, layout.size());
        block
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise about the layout is passed on.
        let block = unsafe { self.inner.alloc_zeroed(layout) };
        self.allocated(block, layout.size());
        block
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // Before the memory can be allocated again.
        if let Some(heap) = ProcessHeap::get() {
            heap.freed(block.addr() as u64, true);
        }
        // SAFETY: the caller's promise about the block and its layout is passed on.
        unsafe { self.inner.dealloc(block, layout) }
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        let address = block.addr() as u64;
        let moves = ProcessHeap::get().and_then(|heap| Some((heap, heap.begin_move(address)?)));
        // SAFETY: the caller's promise about the block, its layout and the new size is passed on.
        let moved = unsafe { self.inner.realloc(block, layout, new_size) };
        if !moved.is_null() {
            moves.into_iter().for_each(|(heap, number)| heap.moved(address, number, true));
            self.allocated(moved, new_size);
        }
        moved
    }
}
