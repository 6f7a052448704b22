//! The allocator's supply of memory: takes segments and pages from the device and gives them back.

use std::sync::Arc;

use super::ids::RangeIndex;
use crate::{
    device::{Device, Mark},
    error::Result,
    event::{Address, StreamId},
};

/// The reserved addresses of an expandable segment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Range {
    pub(super) base: Address,
    pub(super) bytes: u64,
    pub(super) page_bytes: u64,
}

impl Range {
    /// Returns the start and the size of the whole pages inside a piece of the range; size 0 if there is none.
    pub(super) fn whole_pages(&self, address: Address, bytes: u64) -> (Address, u64) {
        let offset = address.0 - self.base.0;
        let start = offset.next_multiple_of(self.page_bytes);
        let end = (offset + bytes) / self.page_bytes * self.page_bytes;
        (self.base.offset(start), end.saturating_sub(start))
    }
}

/// The device, the memory taken from it, and the limit.
#[derive(Debug)]
pub(super) struct Supply {
    device: Arc<dyn Device>,
    reserved_bytes: u64,
    allowed_bytes: Option<u64>,
    ranges: Vec<Option<Range>>,
}

impl Supply {
    pub(super) fn new(device: Arc<dyn Device>) -> Supply {
        Supply { device, reserved_bytes: 0, allowed_bytes: None, ranges: Vec::new() }
    }

    /// Returns true if the limit allows `bytes` more bytes.
    pub(super) fn allows(&self, bytes: u64) -> bool {
        self.allowed_bytes.is_none_or(|allowed| self.reserved_bytes.saturating_add(bytes) <= allowed)
    }

    /// Takes a segment; `None` when the device is full.
    pub(super) fn take(&mut self, bytes: u64) -> Result<Option<Address>> {
        let segment = self.device.segment_alloc(bytes)?;
        if segment.is_some() {
            self.reserved_bytes += bytes;
        }
        Ok(segment)
    }

    /// Gives a segment back.
    ///
    /// # Safety
    /// It came from [`Supply::take`] with the same `bytes`, was not given back
    /// before, and no block in it is allocated.
    pub(super) unsafe fn give_back(&mut self, address: Address, bytes: u64) {
        self.reserved_bytes -= bytes;
        // SAFETY: the caller guarantees the device's conditions.
        unsafe { self.device.segment_free(address, bytes) }
    }

    /// Reserves addresses; `None` when there are none left.
    pub(super) fn reserve(&mut self, bytes: u64, page_bytes: u64) -> Result<Option<RangeIndex>> {
        let Some(base) = self.device.range_reserve(bytes, page_bytes)? else { return Ok(None) };
        let vacant = self.ranges.iter().position(Option::is_none);
        let index = vacant.unwrap_or(self.ranges.len());
        self.ranges.resize(self.ranges.len().max(index + 1), None);
        self.ranges[index] = Some(Range { base, bytes, page_bytes });
        Ok(Some(RangeIndex(u32::try_from(index).expect("fewer than 2^32 ranges"))))
    }

    pub(super) fn range(&self, index: RangeIndex) -> Range {
        self.ranges[index.0 as usize].expect("a range's number is used only while it is reserved")
    }

    /// Releases reserved addresses.
    ///
    /// # Safety
    /// No page of the range has memory.
    pub(super) unsafe fn unreserve(&mut self, index: RangeIndex) {
        let Range { base, bytes, .. } = self.range(index);
        self.ranges[index.0 as usize] = None;
        // SAFETY: the range came from `reserve` and was just removed from the
        // table, so it is released once; the caller guarantees it has no memory.
        unsafe { self.device.range_release(base, bytes) }
    }

    /// Maps pages. Returns false when the device is full; then nothing has changed.
    ///
    /// # Safety
    /// The pages are whole pages of a reserved range and have no memory.
    pub(super) unsafe fn map(&mut self, address: Address, bytes: u64) -> Result<bool> {
        // SAFETY: the caller guarantees the device's conditions.
        let is_mapped = unsafe { self.device.range_map(address, bytes)? };
        if is_mapped {
            self.reserved_bytes += bytes;
        }
        Ok(is_mapped)
    }

    /// Unmaps pages and frees their memory.
    ///
    /// # Safety
    /// The pages are whole pages of a reserved range, have memory, and no block
    /// in them is allocated.
    pub(super) unsafe fn unmap(&mut self, address: Address, bytes: u64) {
        self.reserved_bytes -= bytes;
        // SAFETY: the caller guarantees the device's conditions.
        unsafe { self.device.range_unmap(address, bytes) }
    }

    /// Sets the limit to a fraction of the device's memory, rounded down; 1 removes it.
    pub(super) fn set_allowed_fraction(&mut self, fraction: f64) {
        #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let allowed_bytes = (fraction * self.device.total_bytes() as f64) as u64;
        self.allowed_bytes = (fraction < 1.0).then_some(allowed_bytes);
    }

    /// Sets the limit in bytes; `None` removes it.
    pub(super) fn set_allowed_bytes(&mut self, allowed_bytes: Option<u64>) {
        self.allowed_bytes = allowed_bytes;
    }

    pub(super) fn allowed_bytes(&self) -> Option<u64> {
        self.allowed_bytes
    }

    pub(super) fn reserved_bytes(&self) -> u64 {
        self.reserved_bytes
    }

    pub(super) fn device(&self) -> &Arc<dyn Device> {
        &self.device
    }

    pub(super) fn mark(&self, stream: StreamId) -> Result<Mark> {
        self.device.mark(stream)
    }
}
