//! Owned values on a GPU, in a block of memreel's allocator.
#![forbid(unsafe_code)]

use std::{marker::PhantomData, ops::RangeBounds, sync::Arc};

use cudarc::driver::{CudaStream, DevicePtr, DevicePtrMut, DeviceSlice, SyncOnDrop, sys};

use super::{
    launch::Argument,
    uses::{By, Uses},
    view::{View, ViewMut, bounds},
};
use crate::allocator::Allocation;

/// Owned values on a GPU. When dropped, their block returns to the cache, where work on the same stream can reuse it
/// immediately, without a call to the driver.
#[derive(Debug)]
pub struct Slice<T> {
    uses: Uses,
    len: usize,
    values: PhantomData<T>,
}

impl<T> Slice<T> {
    #[inline]
    pub(super) fn new(block: Option<Allocation>, len: usize, stream: Arc<CudaStream>) -> Slice<T> {
        Slice { uses: Uses::new(block, stream), len, values: PhantomData }
    }

    /// Gives the block of the values a name; see [`Allocation::annotate`]. A slice without values has no block.
    pub fn annotate(&self, name: &str) {
        self.uses.annotate(name);
    }

    /// Borrows all values for reading.
    pub fn as_view(&self) -> View<'_, T> {
        View::new(&self.uses, 0, self.len)
    }

    /// Borrows a range of the values for reading.
    ///
    /// # Panics
    /// If the range is out of bounds.
    pub fn slice(&self, range: impl RangeBounds<usize>) -> View<'_, T> {
        let (start, end) = bounds(range, self.len);
        View::new(&self.uses, start, end - start)
    }

    /// Borrows a range of the values for writing.
    ///
    /// # Panics
    /// If the range is out of bounds.
    pub fn slice_mut(&mut self, range: impl RangeBounds<usize>) -> ViewMut<'_, T> {
        let (start, end) = bounds(range, self.len);
        ViewMut::new(&self.uses, start, end - start)
    }

    /// Returns an argument for a kernel that reads the values and is launched on `stream`.
    pub fn on<'a>(&'a self, stream: &'a Arc<CudaStream>) -> Argument<'a> {
        Argument::new(&self.uses, 0, stream)
    }

    /// Returns an argument for a kernel that writes the values and is launched on `stream`.
    pub fn on_mut<'a>(&'a mut self, stream: &'a Arc<CudaStream>) -> Argument<'a> {
        Argument::new(&self.uses, 0, stream)
    }
}

impl<T> DeviceSlice<T> for Slice<T> {
    fn len(&self) -> usize {
        self.len
    }

    fn stream(&self) -> &Arc<CudaStream> {
        self.uses.stream()
    }
}

impl<T> DevicePtr<T> for Slice<T> {
    fn device_ptr<'a>(&'a self, stream: &'a CudaStream) -> (sys::CUdeviceptr, SyncOnDrop<'a>) {
        self.uses.begin(stream, 0, By::Reader)
    }
}

impl<T> DevicePtrMut<T> for Slice<T> {
    fn device_ptr_mut<'a>(&'a mut self, stream: &'a CudaStream) -> (sys::CUdeviceptr, SyncOnDrop<'a>) {
        self.uses.begin(stream, 0, By::Writer)
    }
}
