//! The allocator's account with the device: memory taken, the limit, and memory to return.

use std::{collections::VecDeque, sync::Arc};

use super::ids::RangeIndex;
use crate::device::{Device, Mark};
use memreel_snapshot::words::{Address, Result, StreamId};

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

/// Memory on its way back to the device. No block and no request refers to it any more.
#[derive(Debug)]
pub(super) struct Return(Kind, Address, u64);

#[derive(Clone, Copy, Debug)]
enum Kind {
    Segment,
    Pages,
    /// The addresses of a range.
    Range,
}

impl Return {
    /// Returns the memory to the device, which may take long.
    pub(super) fn give_to(self, device: &dyn Device) {
        let Return(kind, address, bytes) = self;
        // SAFETY: only the unsafe methods of `Supply` make a return, and their callers guarantee the device's
        // conditions. Returns are made and given back one after the other, so the pages of a range go before the
        // range. This one is consumed, so it is given back once.
        unsafe {
            match kind {
                Kind::Segment => device.segment_free(address, bytes),
                Kind::Pages => device.range_unmap(address, bytes),
                Kind::Range => device.range_release(address, bytes),
            }
        }
    }
}

/// The device, the memory taken from it, and the limit.
#[derive(Debug)]
pub(super) struct Supply {
    device: Arc<dyn Device>,
    reserved_bytes: u64,
    allowed_bytes: Option<u64>,
    ranges: Vec<Option<Range>>,
    /// In the order in which they were released.
    returns: VecDeque<Return>,
}

impl Supply {
    pub(super) fn new(device: Arc<dyn Device>) -> Supply {
        Supply {
            device,
            reserved_bytes: 0,
            allowed_bytes: None,
            ranges: Vec::new(),
            returns: VecDeque::new(),
        }
    }

    /// Returns true if the limit allows `bytes` more bytes.
    pub(super) fn allows(&self, bytes: u64) -> bool {
        self.allowed_bytes.is_none_or(|allowed| self.reserved_bytes.saturating_add(bytes) <= allowed)
    }

    /// Counts memory that the device has handed out or mapped.
    pub(super) fn count_taken(&mut self, bytes: u64) {
        self.reserved_bytes += bytes;
    }

    /// Releases a segment. The thread that has the turn gives it back with [`Return::give_to`].
    ///
    /// # Safety
    /// It came from the device's `segment_alloc` with the same `bytes`, was not released before, and no block in it
    /// is allocated.
    pub(super) unsafe fn release(&mut self, address: Address, bytes: u64) {
        self.reserved_bytes -= bytes;
        self.returns.push_back(Return(Kind::Segment, address, bytes));
    }

    /// Removes and returns the first released memory that was not returned to the device yet.
    pub(super) fn next_return(&mut self) -> Option<Return> {
        self.returns.pop_front()
    }

    /// Adds a range that the device has reserved.
    pub(super) fn add_range(&mut self, range: Range) -> RangeIndex {
        let vacant = self.ranges.iter().position(Option::is_none);
        let index = vacant.unwrap_or_else(|| {
            self.ranges.push(None);
            self.ranges.len() - 1
        });
        self.ranges[index] = Some(range);
        RangeIndex(u32::try_from(index).expect("fewer than 2^32 ranges"))
    }

    pub(super) fn range(&self, index: RangeIndex) -> Range {
        self.ranges[index.0 as usize].expect("a range's number is used only while it is reserved")
    }

    /// Releases reserved addresses, like [`Supply::release`].
    ///
    /// # Safety
    /// No page of the range has memory, other than released pages.
    pub(super) unsafe fn unreserve(&mut self, index: RangeIndex) {
        let Range { base, bytes, .. } = self.range(index);
        self.ranges[index.0 as usize] = None;
        self.returns.push_back(Return(Kind::Range, base, bytes));
    }

    /// Releases the memory of pages, like [`Supply::release`].
    ///
    /// # Safety
    /// The pages are whole pages of a reserved range, have memory, and no block
    /// in them is allocated.
    pub(super) unsafe fn unmap(&mut self, address: Address, bytes: u64) {
        self.reserved_bytes -= bytes;
        self.returns.push_back(Return(Kind::Pages, address, bytes));
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

    /// Forgets a mark.
    ///
    /// The core calls this once for each mark of [`Supply::mark`]: when it has removed the mark from `Core::waiting`,
    /// the only place for marks, and no thread waits for it (`Core::awaited`).
    pub(super) fn forget(&self, mark: Mark) {
        // SAFETY: the mark came from this device, and by the condition above nothing uses it any more.
        unsafe { self.device.forget(mark) }
    }
}
