//! Wraps an allocator and reports its allocations and frees to a ledger.

use std::{
    alloc::{GlobalAlloc, Layout},
    fmt,
};

use crate::{ledger::Ledger, recorder::Recorder};
use memreel_snapshot::words::{Address, DeviceId, Inventory, InventorySegment, StreamId};

/// An allocator whose blocks are its own type, for [`Recorded`].
///
/// A block is given back by value, so it cannot be given back twice. An allocator of pointers implements
/// [`GlobalAlloc`] instead, or `allocator_api2::Allocator` with the feature `allocator-api2`; [`Recorded`] wraps
/// all three.
pub trait Allocate {
    /// A block: an index, a device pointer, a handle.
    type Block;
    /// The reason why an allocation failed.
    type Error;

    /// Allocates a block of `bytes` bytes.
    ///
    /// # Errors
    /// The allocator's own errors.
    fn allocate(&self, bytes: u64) -> Result<Self::Block, Self::Error>;

    /// Frees a block.
    fn deallocate(&self, block: Self::Block);

    /// Returns the start address of a block. Blocks in use do not overlap, and one of 0 bytes has its own address.
    fn address_of(&self, block: &Self::Block) -> Address;
}

/// Wraps an allocator of any kind and records its history: every allocation and free is reported to a [`Ledger`].
///
/// One line wraps an allocator. The wrapper is an allocator too: of its own blocks ([`Allocate`]), a [`GlobalAlloc`],
/// or, with the feature `allocator-api2`, an `allocator_api2::Allocator`. A snapshot is made of it, or, if
/// threads cannot share the allocator, of its ledger.
///
/// ```
/// use std::alloc::{GlobalAlloc, Layout, System};
/// use memreel::{DeviceId, Recorded, recorder::{Recording, Recorder}, snapshot};
///
/// let recorder = Recorder::new();
/// recorder.record_history(&Recording::all());
/// let arena = Recorded::new(System, &recorder, DeviceId(0));
///
/// let layout = Layout::from_size_align(1000, 16).unwrap();
/// // SAFETY: the layout has a size, and the block is freed once with the same layout.
/// let during = unsafe {
///     let block = arena.alloc(layout);
///     let during = snapshot::collect(&recorder, [&arena], Default::default());
///     arena.dealloc(block, layout);
///     during
/// };
/// assert_eq!(during.segments[0].total_size, 1000);
/// ```
///
/// A block outside all reported segments is its own segment; report segments with [`Recorded::ledger`]. An allocation
/// of 0 bytes is not recorded. A `realloc` is a free and an allocation. What the ledger rejects, as a block that is freed
/// twice, it counts ([`Ledger::n_contradictions`]).
///
/// A ledger allocates, so this cannot be the process's own allocator; use [`Heap`](crate::Heap) for that.
pub struct Recorded<A> {
    inner: A,
    ledger: Ledger,
}

impl<A> Recorded<A> {
    /// Wraps an allocator and makes its blocks a device of `recorder`.
    #[must_use]
    pub fn new(inner: A, recorder: &Recorder, device: impl Into<DeviceId>) -> Recorded<A> {
        Recorded { inner, ledger: recorder.ledger(device) }
    }

    /// Returns the ledger, to report segments, failures and block names.
    #[must_use]
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// Returns the wrapped allocator. What is allocated from it directly is not recorded.
    #[must_use]
    pub fn inner(&self) -> &A {
        &self.inner
    }

    fn allocated(&self, address: Address, bytes: u64) {
        if bytes > 0 {
            let _counted = self.ledger.alloc(address, bytes, StreamId::DEFAULT);
        }
    }

    /// Reports that a block will be freed. Returns whether the ledger had it.
    fn freed(&self, address: Address) -> bool {
        self.ledger.free(address).is_ok()
    }
}

impl<A> fmt::Debug for Recorded<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recorded").field("ledger", &self.ledger).finish_non_exhaustive()
    }
}

impl<A> Inventory for Recorded<A>
where
    A: Send + Sync,
{
    fn device(&self) -> DeviceId {
        self.ledger.device()
    }

    fn inspect(&self, look: &mut dyn FnMut(&[InventorySegment])) {
        self.ledger.inspect(look);
    }
}

impl<A: Allocate> Allocate for Recorded<A> {
    type Block = A::Block;
    type Error = A::Error;

    fn allocate(&self, bytes: u64) -> Result<A::Block, A::Error> {
        let block = self.inner.allocate(bytes)?;
        self.allocated(self.inner.address_of(&block), bytes);
        Ok(block)
    }

    fn deallocate(&self, block: A::Block) {
        self.freed(self.inner.address_of(&block));
        self.inner.deallocate(block);
    }

    fn address_of(&self, block: &A::Block) -> Address {
        self.inner.address_of(block)
    }
}

fn address(block: *mut u8) -> Address {
    Address(block.addr() as u64)
}

// SAFETY: memory comes from and goes to the inner allocator, with the layouts of the requests.
unsafe impl<A: GlobalAlloc> GlobalAlloc for Recorded<A> {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise about the layout is passed on.
        let block = unsafe { self.inner.alloc(layout) };
        self.pointer_allocated(block, layout.size())
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise about the layout is passed on.
        let block = unsafe { self.inner.alloc_zeroed(layout) };
        self.pointer_allocated(block, layout.size())
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        self.freed(address(block));
        // SAFETY: the caller's promise about the block and its layout is passed on.
        unsafe { self.inner.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        let was_freed = self.freed(address(block));
        // SAFETY: the caller's promise about the block, its layout and the new size is passed on.
        let moved = unsafe { self.inner.realloc(block, layout, new_size) };
        match moved.is_null() {
            false => self.pointer_allocated(moved, new_size),
            true => {
                if was_freed {
                    self.allocated(address(block), layout.size() as u64);
                }
                moved
            }
        }
    }
}

impl<A: GlobalAlloc> Recorded<A> {
    fn pointer_allocated(&self, block: *mut u8, bytes: usize) -> *mut u8 {
        if !block.is_null() {
            self.allocated(address(block), bytes as u64);
        }
        block
    }
}

#[cfg(feature = "allocator-api2")]
mod api2 {
    use std::{alloc::Layout, ptr::NonNull};

    use allocator_api2::alloc::{AllocError, Allocator};

    use super::{Recorded, address};

    // SAFETY: memory comes from and goes to the inner allocator, with the layouts of the requests; its blocks stay
    // valid as long as it does.
    unsafe impl<A: Allocator> Allocator for Recorded<A> {
        fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
            let block = self.inner.allocate(layout)?;
            self.allocated(address(block.as_ptr().cast()), layout.size() as u64);
            Ok(block)
        }

        fn allocate_zeroed(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
            let block = self.inner.allocate_zeroed(layout)?;
            self.allocated(address(block.as_ptr().cast()), layout.size() as u64);
            Ok(block)
        }

        unsafe fn deallocate(&self, block: NonNull<u8>, layout: Layout) {
            if layout.size() > 0 {
                self.freed(address(block.as_ptr()));
            }
            // SAFETY: the caller's promise about the block and its layout is passed on.
            unsafe { self.inner.deallocate(block, layout) }
        }
    }
}
