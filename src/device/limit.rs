//! An adaptor that refuses beyond a budget, so that out-of-memory is a test and not an accident.

use std::sync::atomic::{AtomicU64, Ordering};

use super::{Device, Mark};
use crate::{
    error::Result,
    event::{Address, StreamId},
};

/// Another device, of which only a part may be used.
///
/// Allocators take memory in segments: with PyTorch's rules a request of more
/// than 1 MiB needs room for 20 MiB. On the host a limit is also what makes a
/// failed request likely at all: without one the system gives more than it has.
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
    /// At most `budget_bytes` of a device.
    #[must_use]
    pub fn new(device: D, budget_bytes: u64) -> Limit<D> {
        Limit { device, budget_bytes, used_bytes: AtomicU64::new(0) }
    }

    /// The device behind it.
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

// SAFETY: the ranges are the inner device's, which keeps the contract.
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
        // above, and the caller gave the rest of the promise.
        unsafe { self.device.segment_free(address, bytes) };
        self.give_back(bytes);
    }

    fn range_reserve(&self, bytes: u64, page_bytes: u64) -> Result<Option<Address>> {
        // Addresses cost nothing; memory counts when it is mapped.
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

    fn forget(&self, mark: Mark) {
        self.device.forget(mark);
    }

    fn stream_number(&self, stream: StreamId) -> u64 {
        self.device.stream_number(stream)
    }

    fn as_any(&self) -> Option<&dyn std::any::Any> {
        self.device.as_any()
    }
}
