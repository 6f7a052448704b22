//! The handle of a block: it frees when dropped, and only once.
#![forbid(unsafe_code)]

use std::{fmt, sync::Arc};

use super::{heap::Grant, ids::BlockId, shared::Shared};
use crate::{
    error::Result,
    event::{Address, DeviceId, StackId, StreamId},
};

/// A block the program holds.
///
/// The handle knows its allocator and cannot be copied, so a block cannot be
/// freed twice or into another allocator's cache:
///
/// ```compile_fail,E0382
/// # let allocator = memreel::Reel::builder().build().unwrap().allocator(0).unwrap().clone();
/// let block = allocator.alloc(1000, memreel::StreamId::DEFAULT).unwrap();
/// block.free().unwrap();
/// block.free().unwrap(); // use of moved value
/// ```
///
/// It keeps the allocator alive.
pub struct Allocation {
    shared: Arc<Shared>,
    /// Taken when the block is freed.
    id: Option<BlockId>,
    address: Address,
    bytes: u64,
    block_bytes: u64,
    stream: StreamId,
    stack: StackId,
}

impl Allocation {
    #[inline]
    pub(super) fn new(
        shared: Arc<Shared>,
        grant: Grant,
        bytes: u64,
        stream: StreamId,
        stack: StackId,
    ) -> Allocation {
        let Grant { id, address, bytes: block_bytes } = grant;
        Allocation { shared, id: Some(id), address, bytes, block_bytes, stream, stack }
    }

    /// Where the block begins; a multiple of 512.
    #[must_use]
    pub fn address(&self) -> Address {
        self.address
    }

    /// What was asked for.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// What was given.
    #[must_use]
    pub fn block_bytes(&self) -> u64 {
        self.block_bytes
    }

    /// The stream it was allocated for.
    #[must_use]
    pub fn stream(&self) -> StreamId {
        self.stream
    }

    /// The device it is on.
    #[must_use]
    pub fn device_id(&self) -> DeviceId {
        self.shared.track.device()
    }

    /// The device it is on.
    #[cfg(feature = "cuda")]
    pub(crate) fn device(&self) -> &dyn crate::device::Device {
        &*self.shared.device
    }

    /// Whether this process can read and write it at its address.
    #[must_use]
    pub fn is_host_visible(&self) -> bool {
        self.shared.device.is_host_visible()
    }

    /// Work queued on another stream uses the block: after it is freed, it is
    /// not handed out before that stream has come so far.
    pub fn record_stream(&self, stream: StreamId) {
        if let Some(id) = self.id {
            self.shared.heap().record_stream(id, stream);
        }
    }

    /// Gives the block back, as dropping does, and says if that failed.
    ///
    /// # Errors
    /// [`is_device`](crate::error::Error::is_device) when the device cannot mark a stream that
    /// uses the block; the block is then never handed out again.
    pub fn free(mut self) -> Result<()> {
        self.id.take().map_or(Ok(()), |id| self.shared.free(id, self.stack))
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        // A drop has nobody to tell of a failure; the block is then out of use
        // for good, which the statistics show as active.
        let _ = self.id.take().map(|id| self.shared.free(id, self.stack));
    }
}

impl fmt::Debug for Allocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Allocation")
            .field("address", &self.address)
            .field("bytes", &self.bytes)
            .field("stream", &self.stream)
            .finish_non_exhaustive()
    }
}
