//! A block as a slice of elements. Only this file of the room turns addresses into references.

use std::{cell::Cell, marker::PhantomData, ptr, slice};

use crate::allocator::{Allocation, CachingAllocator};
use memreel_snapshot::words::{Error, Result};

/// A number type that a [`Buffer`](super::Buffer) can contain.
///
/// # Safety
/// Every bit pattern is a valid value, and there is no padding, because a block contains what its previous
/// user left in it. The alignment is at most 512.
pub unsafe trait Element: Copy + 'static {
    /// The number 0.
    const ZERO: Self;
}

macro_rules! elements {
    ($($number:ty),*) => {
        $(
            // SAFETY: primitive numbers have neither padding nor invalid bit
            // patterns, and their alignment is at most 16.
            unsafe impl Element for $number {
                const ZERO: Self = 0 as $number;
            }
        )*
    };
}

elements!(f32, f64, i8, i16, i32, i64, isize, u8, u16, u32, u64, usize);

/// An allocated block with the type of its elements.
pub(super) struct Storage<T> {
    allocator: CachingAllocator,
    allocation: Allocation,
    n_elements: usize,
    /// Makes the storage neither `Send` nor `Sync`, because views write through shared references.
    elements: PhantomData<*mut T>,
}

impl<T: Element> Storage<T> {
    /// Allocates a block of `bytes` bytes, which must be a multiple of the element's size.
    pub(super) fn new(allocator: &CachingAllocator, bytes: u64) -> Result<Storage<T>> {
        if !allocator.is_host_visible() {
            let device = allocator.device_name();
            let what = format!("device {device}: a buffer needs memory that the host can read and write");
            return Err(Error::misuse(what));
        }
        let allocation = allocator.alloc(bytes, memreel_snapshot::words::StreamId::DEFAULT)?;
        let n_elements = usize::try_from(bytes).map_err(|_| Error::absurd_size(bytes))? / size_of::<T>();
        Ok(Storage { allocator: allocator.clone(), allocation, n_elements, elements: PhantomData })
    }

    pub(super) fn allocator(&self) -> CachingAllocator {
        self.allocator.clone()
    }

    pub(super) fn allocation(&self) -> &Allocation {
        &self.allocation
    }

    /// Returns the elements.
    pub(super) fn cells(&self) -> &[Cell<T>] {
        let address = usize::try_from(self.allocation.address().0).unwrap_or(0);
        // SAFETY: `new` asked for `n_elements` times the element's size on a
        // device that is host visible, so by the contract of `Device` the
        // bytes are initialised, readable and writable at this address, whose
        // provenance the device exposed, and aligned to 512; by that of
        // `Element` any bytes are elements. The block is ours until
        // `allocation` is dropped, which outlives the borrow of `self`. All
        // references are to `Cell`s, on one thread (`elements` forbids
        // others), so writes through one view may be seen through another.
        unsafe { slice::from_raw_parts(ptr::with_exposed_provenance::<Cell<T>>(address), self.n_elements) }
    }
}
