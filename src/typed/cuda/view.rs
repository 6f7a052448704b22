//! Borrowed ranges of a slice.
#![forbid(unsafe_code)]

use std::{
    marker::PhantomData,
    ops::{Bound, RangeBounds},
    sync::Arc,
};

use cudarc::driver::{CudaStream, DevicePtr, DevicePtrMut, DeviceSlice, SyncOnDrop, sys};

use super::{
    launch::Argument,
    uses::{By, Uses},
};

/// Returns the start and the end of a range in `len` values.
///
/// # Panics
/// If the range is out of bounds.
pub(super) fn bounds(range: impl RangeBounds<usize>, len: usize) -> (usize, usize) {
    let start = match range.start_bound() {
        Bound::Included(start) => *start,
        Bound::Excluded(before) => before + 1,
        Bound::Unbounded => 0,
    };
    let end = match range.end_bound() {
        Bound::Included(last) => last + 1,
        Bound::Excluded(end) => *end,
        Bound::Unbounded => len,
    };
    assert!(start <= end && end <= len, "{start}..{end} of {len} values");
    (start, end)
}

macro_rules! views {
    ($($(#[$meta:meta])* $name:ident of $marker:ty;)*) => {$(
        $(#[$meta])*
        #[derive(Debug)]
        pub struct $name<'a, T> {
            uses: &'a Uses,
            offset: usize,
            len: usize,
            values: PhantomData<$marker>,
        }

        impl<'a, T> $name<'a, T> {
            pub(super) fn new(uses: &'a Uses, offset: usize, len: usize) -> $name<'a, T> {
                $name { uses, offset, len, values: PhantomData }
            }

            /// Borrows a range of the values for reading.
            ///
            /// # Panics
            /// If the range is out of bounds.
            pub fn slice(&self, range: impl RangeBounds<usize>) -> View<'_, T> {
                let (start, end) = bounds(range, self.len);
                View::new(self.uses, self.offset + start, end - start)
            }

            fn offset_bytes(&self) -> u64 {
                (self.offset * size_of::<T>()) as u64
            }
        }

        impl<T> DeviceSlice<T> for $name<'_, T> {
            fn len(&self) -> usize {
                self.len
            }

            fn stream(&self) -> &Arc<CudaStream> {
                self.uses.stream()
            }
        }

        impl<T> DevicePtr<T> for $name<'_, T> {
            fn device_ptr<'a>(&'a self, stream: &'a CudaStream) -> (sys::CUdeviceptr, SyncOnDrop<'a>) {
                self.uses.begin(stream, self.offset_bytes(), By::Reader)
            }
        }
    )*};
}

views! {
    /// A range of a [`Slice`](super::Slice), borrowed for reading.
    View of &'a [T];
    /// A range of a [`Slice`](super::Slice), borrowed for writing.
    ViewMut of &'a mut [T];
}

impl<T> View<'_, T> {
    /// Returns an argument for a kernel that reads the values and is launched on `stream`.
    pub fn on<'a>(&'a self, stream: &'a Arc<CudaStream>) -> Argument<'a> {
        Argument::new(self.uses, self.offset_bytes(), stream)
    }
}

impl<T> ViewMut<'_, T> {
    /// Returns an argument for a kernel that writes the values and is launched on `stream`.
    pub fn on_mut<'a>(&'a mut self, stream: &'a Arc<CudaStream>) -> Argument<'a> {
        Argument::new(self.uses, self.offset_bytes(), stream)
    }

    /// Borrows a range of the values for writing.
    ///
    /// # Panics
    /// If the range is out of bounds.
    pub fn slice_mut(&mut self, range: impl RangeBounds<usize>) -> ViewMut<'_, T> {
        let (start, end) = bounds(range, self.len);
        ViewMut::new(self.uses, self.offset + start, end - start)
    }

    /// Borrows the values before index `middle`, and those from `middle` on, for writing.
    ///
    /// # Panics
    /// If `middle` is greater than the length.
    pub fn split_at_mut(&mut self, middle: usize) -> (ViewMut<'_, T>, ViewMut<'_, T>) {
        assert!(middle <= self.len, "{middle} of {} values", self.len);
        (
            ViewMut::new(self.uses, self.offset, middle),
            ViewMut::new(self.uses, self.offset + middle, self.len - middle),
        )
    }
}

impl<T> DevicePtrMut<T> for ViewMut<'_, T> {
    fn device_ptr_mut<'a>(&'a mut self, stream: &'a CudaStream) -> (sys::CUdeviceptr, SyncOnDrop<'a>) {
        self.uses.begin(stream, self.offset_bytes(), By::Writer)
    }
}
