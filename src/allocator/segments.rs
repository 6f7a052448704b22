//! Takes segments from the device and gives them back: the one place that unmaps memory.

use std::sync::Arc;

use crate::{
    device::{Device, Mark},
    error::Result,
    event::{Address, StreamId},
};

/// The device, with what it has given and may give.
#[derive(Debug)]
pub(super) struct Segments {
    device: Arc<dyn Device>,
    reserved_bytes: u64,
    allowed_bytes: Option<u64>,
}

impl Segments {
    pub(super) fn new(device: Arc<dyn Device>) -> Segments {
        Segments { device, reserved_bytes: 0, allowed_bytes: None }
    }

    /// A new segment; `None` when the device is full or the limit would be passed.
    pub(super) fn take(&mut self, bytes: u64) -> Result<Option<Address>> {
        let after = self.reserved_bytes.saturating_add(bytes);
        if self.allowed_bytes.is_some_and(|allowed| after > allowed) {
            return Ok(None);
        }
        let segment = self.device.segment_alloc(bytes)?;
        if segment.is_some() {
            self.reserved_bytes = after;
        }
        Ok(segment)
    }

    /// Gives a segment back.
    ///
    /// # Safety
    /// It came from [`Segments::take`] with these bytes, was not given back,
    /// and nobody holds a block in it.
    pub(super) unsafe fn give_back(&mut self, address: Address, bytes: u64) {
        self.reserved_bytes -= bytes;
        // SAFETY: the caller's promise is the device's condition.
        unsafe { self.device.segment_free(address, bytes) }
    }

    /// How much may be held at once; `None` is all there is.
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
