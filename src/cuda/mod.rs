//! Typed memory for programs on cudarc: slices that return to memreel's cache when dropped.
//!
//! A [`Slice`] works in kernels and copies like cudarc's `CudaSlice`: every
//! function of cudarc that takes `impl DevicePtr` accepts one. It is a type of
//! its own because a `CudaSlice` frees its pointer with the driver when it is
//! dropped, while a block of memreel is a part of a segment.
//!
//! ```no_run
//! use cudarc::driver::CudaContext;
//! use memreel::{Reel, device::Cuda};
//!
//! let stream = CudaContext::new(0)?.default_stream();
//! let reel = Reel::builder().device(Cuda::new(0)?).build()?;
//! let memory = reel.cuda(0)?;
//! let mut x = memory.copy_from(&[1.0_f32, 2.0, 3.0], &stream)?;
//! stream.memset_zeros(&mut x.slice_mut(1..2))?;
//! assert_eq!(stream.clone_dtoh(&x)?, [1.0, 0.0, 3.0]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Functions that take a `CudaSlice` do not accept a [`Slice`]:
//!
//! ```compile_fail,E0308
//! fn free_with_the_driver(slice: cudarc::driver::CudaSlice<f32>) {}
//! # fn try_it(memory: &memreel::cuda::Memory, stream: &std::sync::Arc<cudarc::driver::CudaStream>) {
//! free_with_the_driver(memory.zeros::<f32>(10, stream).unwrap()); // mismatched types
//! # }
//! ```

mod launch;
mod slice;
mod uses;
mod view;

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use cudarc::driver::{CudaStream, DeviceRepr, DriverError, ValidAsZeroBits};

pub use launch::Argument;
pub use slice::Slice;
pub use view::{View, ViewMut};

use crate::{
    allocator::CachingAllocator,
    device::Cuda,
    error::{Error, Result},
    event::StreamId,
};

/// Allocates typed slices from the allocator of a GPU.
pub struct Memory {
    allocator: CachingAllocator,
    ordinal: usize,
    /// The handle of the stream that was last registered with the device; no handle is all ones.
    recent: AtomicU64,
}

impl Memory {
    /// Makes typed memory of an allocator whose device is a GPU.
    ///
    /// # Errors
    /// [`Error::is_misuse`] if the device is not a GPU.
    pub fn new(allocator: &CachingAllocator) -> Result<Memory> {
        let ordinal = Cuda::behind(allocator.device()).map(Cuda::ordinal);
        let ordinal = ordinal
            .ok_or_else(|| Error::misuse(format!("device {} is not a GPU", allocator.device_name())))?;
        Ok(Memory { allocator: allocator.clone(), ordinal, recent: AtomicU64::new(u64::MAX) })
    }

    /// Returns the allocator that the slices come from.
    #[must_use]
    pub fn allocator(&self) -> &CachingAllocator {
        &self.allocator
    }

    /// Allocates memory for `len` values, for work on `stream`. The stream is
    /// kept alive as long as the device.
    ///
    /// # Errors
    /// The errors of [`CachingAllocator::alloc`]; [`Error::is_misuse`] for a
    /// stream of another GPU.
    ///
    /// # Safety
    /// The memory contains what its last user left in it. That must be valid
    /// values of `T`, or be overwritten before it is read.
    #[inline]
    pub unsafe fn alloc<T: DeviceRepr>(&self, len: usize, stream: &Arc<CudaStream>) -> Result<Slice<T>> {
        let id = self.register(stream)?;
        let bytes = len.checked_mul(size_of::<T>()).ok_or_else(|| Error::absurd_size(u64::MAX))?;
        let block = if bytes == 0 { None } else { Some(self.allocator.alloc(bytes as u64, id)?) };
        Ok(Slice::new(block, len, stream.clone()))
    }

    /// Allocates memory for `len` values and sets all its bytes to zero.
    ///
    /// # Errors
    /// The errors of [`Memory::alloc`]; [`Error::is_device`] when the driver fails.
    pub fn zeros<T: DeviceRepr + ValidAsZeroBits>(
        &self,
        len: usize,
        stream: &Arc<CudaStream>,
    ) -> Result<Slice<T>> {
        // SAFETY: all-zero bytes are a value of `T`, and are written on the slice's own stream.
        let mut slice = unsafe { self.alloc(len, stream)? };
        if len > 0 {
            stream.memset_zeros(&mut slice).map_err(|error| self.failed("cuMemsetD8Async", error))?;
        }
        Ok(slice)
    }

    /// Allocates memory and copies `values` from the host into it.
    ///
    /// # Errors
    /// The errors of [`Memory::alloc`]; [`Error::is_device`] when the driver fails.
    pub fn copy_from<T: DeviceRepr>(&self, values: &[T], stream: &Arc<CudaStream>) -> Result<Slice<T>> {
        // SAFETY: the values are written on the slice's own stream.
        let mut slice = unsafe { self.alloc(values.len(), stream)? };
        if !values.is_empty() {
            stream
                .memcpy_htod(values, &mut slice)
                .map_err(|error| self.failed("cuMemcpyHtoDAsync", error))?;
        }
        Ok(slice)
    }

    /// Registers a stream with the device, so that it can be marked, unless it was the last one.
    #[inline]
    fn register(&self, stream: &Arc<CudaStream>) -> Result<StreamId> {
        let handle = stream.cu_stream() as u64;
        if stream.context().ordinal() != self.ordinal {
            return Err(self.foreign_stream(stream));
        }
        if self.recent.load(Ordering::Relaxed) != handle {
            self.register_slowly(stream);
        }
        Ok(StreamId::from_handle(handle))
    }

    #[cold]
    fn register_slowly(&self, stream: &Arc<CudaStream>) {
        if let Some(gpu) = Cuda::behind(self.allocator.device()) {
            let id = gpu.use_stream(stream);
            self.recent.store(id.handle(), Ordering::Relaxed);
        }
    }

    #[cold]
    fn foreign_stream(&self, stream: &CudaStream) -> Error {
        let other = stream.context().ordinal();
        Error::misuse(format!("a stream of GPU {other} cannot use memory of GPU {}", self.ordinal))
    }

    #[cold]
    fn failed(&self, what: &str, error: DriverError) -> Error {
        Error::device(&self.allocator.device_name(), format!("{what}: {error}"))
    }
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memory").field("allocator", &self.allocator).finish_non_exhaustive()
    }
}
