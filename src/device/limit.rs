//! A wrapper that limits another device to a budget, for testing out-of-memory paths.

use std::sync::atomic::{AtomicU64, Ordering};

use super::{Device, Mark};
use memreel_snapshot::words::{Address, Result, StreamId};

/// Wraps a device and hands out at most a fixed number of bytes of it.
///
/// Allocators take memory in segments: under PyTorch's rules a request of more
/// than 1 MiB can need a segment of 20 MiB, so leave room for whole segments.
/// On the host, requests rarely fail without a limit, because the kernel
/// overcommits memory.
///
/// ```
/// use memreel::device::{Device, Limit, Simulated};
///
/// let small = Limit::new(Simulated::new(80 << 30), 100 << 20);
/// assert!(small.segment_alloc(60 << 20)?.is_some());
/// assert!(small.segment_alloc(60 << 20)?.is_none(), "beyond the budget");
/// # Ok::<(), memreel::Error>(())
/// ```
#[derive(Debug)]
pub struct Limit<D> {
    device: D,
    budget_bytes: u64,
    used_bytes: AtomicU64,
}

impl<D: Device> Limit<D> {
    /// Limits `device` to `budget_bytes` bytes of segments and mapped pages.
    #[must_use]
    pub fn new(device: D, budget_bytes: u64) -> Limit<D> {
        Limit { device, budget_bytes, used_bytes: AtomicU64::new(0) }
    }

    /// Returns the wrapped device.
    pub fn get_ref(&self) -> &D {
        &self.device
    }

    fn take(&self, bytes: u64) -> bool {
        let within = |used: u64| used.checked_add(bytes).filter(|sum| *sum <= self.budget_bytes);
        self.used_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, within).is_ok()
    }

    fn give_back(&self, bytes: u64) {
        self.used_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
}

// SAFETY: every range comes from the inner device, which keeps the contract.
unsafe impl<D: Device> Device for Limit<D> {
    fn name(&self) -> String {
        self.device.name()
    }

    fn total_bytes(&self) -> u64 {
        self.budget_bytes.min(self.device.total_bytes())
    }

    fn free_bytes(&self) -> u64 {
        let unused = self.budget_bytes - self.used_bytes.load(Ordering::Relaxed);
        unused.min(self.device.free_bytes())
    }

    fn is_host_visible(&self) -> bool {
        self.device.is_host_visible()
    }

    fn segment_alloc(&self, bytes: u64) -> Result<Option<Address>> {
        if !self.take(bytes) {
            return Ok(None);
        }
        let segment = self.device.segment_alloc(bytes);
        if !matches!(segment, Ok(Some(_))) {
            self.give_back(bytes);
        }
        segment
    }

    unsafe fn segment_free(&self, address: Address, bytes: u64) {
        // SAFETY: the segment came from the inner device through `segment_alloc`
        // above, and the caller guarantees the rest of the contract.
        unsafe { self.device.segment_free(address, bytes) };
        self.give_back(bytes);
    }

    fn range_reserve(&self, bytes: u64, page_bytes: u64) -> Result<Option<Address>> {
        // Reserved addresses use no memory; only mapped pages count.
        self.device.range_reserve(bytes, page_bytes)
    }

    unsafe fn range_release(&self, address: Address, bytes: u64) {
        // SAFETY: the caller keeps the same promise to us.
        unsafe { self.device.range_release(address, bytes) }
    }

    unsafe fn range_map(&self, address: Address, bytes: u64) -> Result<bool> {
        if !self.take(bytes) {
            return Ok(false);
        }
        // SAFETY: the caller keeps the same promise to us.
        let is_mapped = unsafe { self.device.range_map(address, bytes) };
        if !matches!(is_mapped, Ok(true)) {
            self.give_back(bytes);
        }
        is_mapped
    }

    unsafe fn range_unmap(&self, address: Address, bytes: u64) {
        // SAFETY: the caller keeps the same promise to us.
        unsafe { self.device.range_unmap(address, bytes) };
        self.give_back(bytes);
    }

    fn mark(&self, stream: StreamId) -> Result<Mark> {
        self.device.mark(stream)
    }

    fn is_passed(&self, mark: Mark) -> Result<bool> {
        self.device.is_passed(mark)
    }

    fn wait(&self, mark: Mark) -> Result<()> {
        self.device.wait(mark)
    }

    unsafe fn forget(&self, mark: Mark) {
        // SAFETY: the caller keeps the same promise to us.
        unsafe { self.device.forget(mark) }
    }

    fn stream_number(&self, stream: StreamId) -> u64 {
        self.device.stream_number(stream)
    }

    fn as_any(&self) -> Option<&dyn std::any::Any> {
        self.device.as_any()
    }
}
