//! Where segments come from: a device gives memory in large pieces and orders work on streams.

#[cfg(feature = "cuda")]
mod cuda;
mod host;
mod limit;
mod simulated;

use std::{any::Any, fmt, sync::Arc};

#[cfg(feature = "cuda")]
pub use cuda::Cuda;
pub use host::Host;
pub use limit::Limit;
pub use simulated::Simulated;

use crate::{
    error::Result,
    event::{Address, StreamId},
};

/// A mark on a stream: done when all work queued before it is done.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Mark(pub u64);

/// Gives memory in segments, and says when a stream has passed a mark.
///
/// An allocator asks a device for nothing else. Every implementation passes
/// the contract suite in `tests/it/allocator/device_contract.rs`.
///
/// # Safety
/// Until [`Device::segment_free`], a range that [`Device::segment_alloc`]
/// returned overlaps no other that the device gave and not took back. If
/// [`Device::is_host_visible`], each byte of it is initialised, may be read
/// and written by this process through a pointer made from the address (its
/// provenance is exposed), and the range is aligned to 512 bytes. Callers turn
/// addresses into slices on the strength of this.
pub unsafe trait Device: Send + Sync + fmt::Debug {
    /// What to call it in messages.
    fn name(&self) -> String;

    /// All its memory, in bytes. It does not change.
    fn total_bytes(&self) -> u64;

    /// What it could still give, in bytes, as far as it knows.
    fn free_bytes(&self) -> u64;

    /// Whether the process can read and write the memory at its address.
    fn is_host_visible(&self) -> bool;

    /// A new segment, or `None` when the device is full.
    ///
    /// # Errors
    /// If the device failed in another way.
    fn segment_alloc(&self, bytes: u64) -> Result<Option<Address>>;

    /// Takes a segment back.
    ///
    /// # Safety
    /// The segment came from this device's `segment_alloc` with these bytes,
    /// was not given back, and nothing uses its memory any more.
    unsafe fn segment_free(&self, address: Address, bytes: u64);

    /// Addresses without memory, or `None` when there are none left or the
    /// device has no such thing. They overlap nothing the device has given.
    /// Parts of the range are mapped and unmapped in whole pages of
    /// `page_bytes`, a multiple of 2 MiB.
    ///
    /// # Errors
    /// If the device failed in another way.
    fn range_reserve(&self, bytes: u64, page_bytes: u64) -> Result<Option<Address>>;

    /// Takes reserved addresses back.
    ///
    /// # Safety
    /// The range came from [`Device::range_reserve`] with these bytes, was not
    /// given back, and none of it has memory.
    unsafe fn range_release(&self, address: Address, bytes: u64);

    /// Backs a part of a range with memory; false when the device is full, and
    /// nothing has changed. From then on the part is as a segment is: on a
    /// host-visible device it may be read and written.
    ///
    /// # Errors
    /// If the device failed in another way.
    ///
    /// # Safety
    /// The part is whole pages of a reserved range, and has no memory.
    unsafe fn range_map(&self, address: Address, bytes: u64) -> Result<bool>;

    /// Takes the memory of a part away.
    ///
    /// # Safety
    /// The part is whole pages, each of which was mapped, and nothing uses its memory any more.
    unsafe fn range_unmap(&self, address: Address, bytes: u64);

    /// Marks the work queued on a stream so far.
    ///
    /// # Errors
    /// If the device cannot.
    fn mark(&self, stream: StreamId) -> Result<Mark>;

    /// Whether the stream has passed the mark; asking does not wait.
    ///
    /// # Errors
    /// If the device cannot say.
    fn is_passed(&self, mark: Mark) -> Result<bool>;

    /// Waits until the stream has passed the mark.
    ///
    /// # Errors
    /// If the device cannot.
    fn wait(&self, mark: Mark) -> Result<()>;

    /// Forgets a mark that nobody will ask about again.
    fn forget(&self, mark: Mark);

    /// The number that orders this stream among others.
    ///
    /// PyTorch gives its own streams small numbers and takes the handle of
    /// foreign ones; the order in which frees complete on several streams
    /// depends on it (caching-allocator.md 4.4).
    fn stream_number(&self, stream: StreamId) -> u64 {
        stream.handle()
    }

    /// The device itself, for callers that need more of it than this trait, such as
    /// `Cuda`'s streams; `None` for devices that offer no more. A wrapper answers for the
    /// device that it wraps.
    fn as_any(&self) -> Option<&dyn Any> {
        None
    }
}

// SAFETY: every call goes to the device behind the pointer, which keeps the contract.
unsafe impl<D: Device + ?Sized> Device for Arc<D> {
    fn name(&self) -> String {
        (**self).name()
    }

    fn total_bytes(&self) -> u64 {
        (**self).total_bytes()
    }

    fn free_bytes(&self) -> u64 {
        (**self).free_bytes()
    }

    fn is_host_visible(&self) -> bool {
        (**self).is_host_visible()
    }

    fn segment_alloc(&self, bytes: u64) -> Result<Option<Address>> {
        (**self).segment_alloc(bytes)
    }

    unsafe fn segment_free(&self, address: Address, bytes: u64) {
        // SAFETY: the caller keeps the same promise to us.
        unsafe { (**self).segment_free(address, bytes) }
    }

    fn range_reserve(&self, bytes: u64, page_bytes: u64) -> Result<Option<Address>> {
        (**self).range_reserve(bytes, page_bytes)
    }

    unsafe fn range_release(&self, address: Address, bytes: u64) {
        // SAFETY: the caller keeps the same promise to us.
        unsafe { (**self).range_release(address, bytes) }
    }

    unsafe fn range_map(&self, address: Address, bytes: u64) -> Result<bool> {
        // SAFETY: the caller keeps the same promise to us.
        unsafe { (**self).range_map(address, bytes) }
    }

    unsafe fn range_unmap(&self, address: Address, bytes: u64) {
        // SAFETY: the caller keeps the same promise to us.
        unsafe { (**self).range_unmap(address, bytes) }
    }

    fn mark(&self, stream: StreamId) -> Result<Mark> {
        (**self).mark(stream)
    }

    fn is_passed(&self, mark: Mark) -> Result<bool> {
        (**self).is_passed(mark)
    }

    fn wait(&self, mark: Mark) -> Result<()> {
        (**self).wait(mark)
    }

    fn forget(&self, mark: Mark) {
        (**self).forget(mark);
    }

    fn stream_number(&self, stream: StreamId) -> u64 {
        (**self).stream_number(stream)
    }

    fn as_any(&self) -> Option<&dyn Any> {
        (**self).as_any()
    }
}
