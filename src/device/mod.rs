//! Devices: sources of memory in large segments, with streams of queued work.
//!
//! `host`, `simulated` and, with the feature `cuda`, NVIDIA GPUs; `limit` makes any of them smaller. A device does not know blocks.

#[cfg(feature = "cuda")]
mod cuda;
#[cfg(target_os = "linux")]
mod host;
mod limit;
mod places;
mod playback;
mod simulated;

use std::{any::Any, fmt, sync::Arc};

#[cfg(feature = "cuda")]
pub use cuda::Cuda;
#[cfg(feature = "cuda")]
pub(crate) use cuda::{Lost, OwnContext, Twin};
#[cfg(target_os = "linux")]
pub use host::Host;
pub use limit::Limit;
pub(crate) use playback::Deed;
pub use simulated::Simulated;

use memreel_snapshot::words::{Address, Result, StreamId};

/// A mark on a stream; the stream passes it when all work queued before it is done.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Mark(pub u64);

/// A source of memory in segments, whose streams can be marked.
///
/// These methods are all that an allocator needs. Each of memreel's implementations
/// passes the contract suite in `tests/it/allocator/device_contract.rs`.
///
/// An allocator calls [`Device::total_bytes`], [`Device::mark`], [`Device::is_passed`], [`Device::forget`] and
/// [`Device::stream_number`] under its lock, so these must not wait for other threads or for queued work. It calls the
/// methods that provide, map, give back or wait without that lock, from one thread at a time: they may take long, and
/// other threads use cached blocks meanwhile. A thread that needs device memory has to wait for them, so none of these
/// methods may wait for a request of the same allocator that needs more than a cached block.
///
/// # Safety
/// From [`Device::segment_alloc`] to [`Device::segment_free`], a segment
/// overlaps no other memory that the device has handed out. If
/// [`Device::is_host_visible`] returns true, the segment is aligned to 512
/// bytes, each of its bytes is initialised, and this process may read and write
/// it through a pointer made from the address (its provenance is exposed).
/// Callers rely on this when they make slices from addresses.
///
/// [`Device::is_passed`] returns true, and [`Device::wait`] returns without an error, only when the stream has
/// passed the mark; they return an error for a mark that the device did not make. If [`Device::as_any`] returns
/// another device than this one, all segments, ranges and marks come from that device.
pub unsafe trait Device: Send + Sync + fmt::Debug {
    /// Returns the name of the device in messages.
    fn name(&self) -> String;

    /// Returns the size of the device's memory in bytes, which never changes.
    fn total_bytes(&self) -> u64;

    /// Returns the bytes that the device could still hand out, as far as it knows.
    fn free_bytes(&self) -> u64;

    /// Returns true if this process can read and write the memory at its address.
    fn is_host_visible(&self) -> bool;

    /// Allocates a segment of `bytes` bytes; `None` when the device is full.
    ///
    /// # Errors
    /// If the device fails for another reason.
    fn segment_alloc(&self, bytes: u64) -> Result<Option<Address>>;

    /// Frees a segment.
    ///
    /// # Safety
    /// The segment came from this device's `segment_alloc` with the same
    /// `bytes`, was not freed before, and nothing uses its memory any more.
    unsafe fn segment_free(&self, address: Address, bytes: u64);

    /// Reserves a range of `bytes` addresses without memory; `None` when no
    /// addresses are left or the device does not support ranges.
    ///
    /// The range overlaps nothing that the device has handed out. Parts of it
    /// are mapped and unmapped in whole pages of `page_bytes`, a multiple of 2 MiB.
    ///
    /// # Errors
    /// If the device fails for another reason.
    fn range_reserve(&self, bytes: u64, page_bytes: u64) -> Result<Option<Address>>;

    /// Releases a range of reserved addresses.
    ///
    /// # Safety
    /// The range came from [`Device::range_reserve`] with the same `bytes`, was
    /// not released before, and no part of it has memory.
    unsafe fn range_release(&self, address: Address, bytes: u64);

    /// Backs a part of a range with memory. Returns false when the device is
    /// full; then nothing has changed.
    ///
    /// A mapped part is like a segment: on a host-visible device it may be read
    /// and written.
    ///
    /// # Errors
    /// If the device fails for another reason.
    ///
    /// # Safety
    /// The part consists of whole pages of a reserved range, and has no memory.
    unsafe fn range_map(&self, address: Address, bytes: u64) -> Result<bool>;

    /// Unmaps a part of a range and frees its memory.
    ///
    /// # Safety
    /// The part consists of whole pages that are mapped, and nothing uses their memory any more.
    unsafe fn range_unmap(&self, address: Address, bytes: u64);

    /// Makes a mark after the work that is queued on a stream so far.
    ///
    /// # Errors
    /// If the device does not know the stream or fails.
    fn mark(&self, stream: StreamId) -> Result<Mark>;

    /// Returns true if the stream has passed the mark. Does not wait.
    ///
    /// # Errors
    /// If the device does not know the mark or fails.
    fn is_passed(&self, mark: Mark) -> Result<bool>;

    /// Waits until the stream has passed the mark.
    ///
    /// # Errors
    /// If the device does not know the mark or fails.
    fn wait(&self, mark: Mark) -> Result<()>;

    /// Forgets a mark, so that the device can reuse what the mark was made of.
    ///
    /// # Safety
    /// The mark came from this device's [`Device::mark`] and was not forgotten before. No call that waits for it or
    /// queries it is running, and none follows: the answer could be that of a later mark on another stream.
    unsafe fn forget(&self, mark: Mark);

    /// Returns the number by which a stream is hashed in PyTorch's tables. Default: its handle.
    ///
    /// PyTorch gives its own streams small numbers and uses the handles of
    /// foreign ones. The order in which frees complete on several streams
    /// depends on the numbers (`docs/caching-allocator.md` 4.4).
    fn stream_number(&self, stream: StreamId) -> u64 {
        stream.handle()
    }

    /// Returns the device itself, for callers that need more than this trait, such as the streams of `Cuda`; `None` for
    /// devices that offer no more. A wrapper returns the device that it wraps. The safety section above states the
    /// condition for that.
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

    unsafe fn forget(&self, mark: Mark) {
        // SAFETY: the caller keeps the same promise to us.
        unsafe { (**self).forget(mark) }
    }

    fn stream_number(&self, stream: StreamId) -> u64 {
        (**self).stream_number(stream)
    }

    fn as_any(&self) -> Option<&dyn Any> {
        (**self).as_any()
    }
}
