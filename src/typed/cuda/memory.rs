//! Typed memory of one GPU: allocates slices.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
};

use cudarc::driver::{CudaStream, DeviceRepr, DriverError, ValidAsZeroBits};

use super::{captures, elsewhere::PER_THREAD, kept, slice::Slice};
use crate::{allocator::CachingAllocator, device::Cuda};
use memreel_snapshot::words::{Error, Result, StreamId};

/// Allocates typed slices from the allocator of a GPU.
pub struct Memory {
    allocator: CachingAllocator,
    /// The primary context of the GPU once one of its streams was registered; 0 before that.
    context: AtomicUsize,
    /// The handle of the stream that was last registered with the device; initially all ones, which no handle is.
    recent: AtomicU64,
}

impl Memory {
    /// Creates typed memory for an allocator whose device is a GPU.
    ///
    /// # Errors
    /// [`Error::is_misuse`] if the device is not a GPU.
    pub fn new(allocator: &CachingAllocator) -> Result<Memory> {
        if Cuda::behind(allocator.device()).is_none() {
            return Err(Error::misuse(format!("device {} is not a GPU", allocator.device_name())));
        }
        captures::survive_forks();
        kept::survive_forks();
        let (context, recent) = (AtomicUsize::new(0), AtomicU64::new(u64::MAX));
        Ok(Memory { allocator: allocator.clone(), context, recent })
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
    /// The errors of [`CachingAllocator::alloc`]; [`Error::is_misuse`] for a stream of another GPU or of a context that
    /// is not the primary one, and for the per-thread default stream, which is a different stream on each thread.
    ///
    /// # Safety
    /// The memory contains what its last user left in it: either that is valid values of `T`, or the memory is
    /// overwritten before it is read.
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
    pub(super) fn register(&self, stream: &Arc<CudaStream>) -> Result<StreamId> {
        let handle = stream.cu_stream() as u64;
        // A handle alone is not a stream: the default streams of all contexts are null.
        if self.context.load(Ordering::Relaxed) != stream.context().cu_ctx() as usize
            || self.recent.load(Ordering::Relaxed) != handle
        {
            self.register_slowly(stream)?;
        }
        Ok(StreamId::from_handle(handle))
    }

    #[cold]
    fn register_slowly(&self, stream: &Arc<CudaStream>) -> Result<()> {
        let Some(gpu) = Cuda::behind(self.allocator.device()) else { return Ok(()) };
        let (context, ordinal) = (stream.context(), gpu.ordinal());
        if context.ordinal() != ordinal {
            let other = context.ordinal();
            return Err(Error::misuse(format!("a stream of GPU {other} cannot use memory of GPU {ordinal}")));
        }
        if !gpu.is_primary(context) {
            return Err(Error::misuse(format!(
                "the stream's context is not the primary one of GPU {ordinal}; use `CudaContext::new({ordinal})`"
            )));
        }
        if stream.cu_stream() as u64 == PER_THREAD {
            let what = "the per-thread default stream is another stream on each thread, so memory cannot belong \
                        to it; make a stream with `CudaContext::new_stream`";
            return Err(Error::misuse(what));
        }
        self.recent.store(gpu.use_stream(stream).handle(), Ordering::Relaxed);
        self.context.store(context.cu_ctx() as usize, Ordering::Relaxed);
        Ok(())
    }

    #[cold]
    pub(super) fn failed(&self, what: &str, error: DriverError) -> Error {
        Error::device(&self.allocator.device_name(), format!("{what}: {error}"))
    }
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memory").field("allocator", &self.allocator).finish_non_exhaustive()
    }
}
