//! The handle of a block, which frees it exactly once.
#![forbid(unsafe_code)]

use std::{fmt, sync::Arc};

use super::{core::Grant, ids::BlockId, shared::Shared};
use memreel_snapshot::words::{Address, DeviceId, Result, StackId, StreamId};

/// An allocated block, which is freed when the handle is dropped.
///
/// The handle belongs to its allocator and cannot be copied, so a block cannot
/// be freed twice or to another allocator:
///
/// ```compile_fail,E0382
/// # let allocator = memreel::Reel::builder().build().unwrap().allocator(0).unwrap().clone();
/// let block = allocator.alloc(1000, memreel::StreamId::DEFAULT).unwrap();
/// block.free().unwrap();
/// block.free().unwrap(); // use of moved value
/// ```
///
/// The handle keeps the allocator alive.
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

    /// Returns the address of the block, a multiple of 512.
    #[must_use]
    pub fn address(&self) -> Address {
        self.address
    }

    /// Returns the requested size in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the size of the block in bytes, which is at least [`Allocation::bytes`].
    #[must_use]
    pub fn block_bytes(&self) -> u64 {
        self.block_bytes
    }

    /// Returns the stream that the block was allocated for.
    #[must_use]
    pub fn stream(&self) -> StreamId {
        self.stream
    }

    /// Returns the id of the block's device.
    #[must_use]
    pub fn device_id(&self) -> DeviceId {
        self.shared.track.device()
    }

    /// Returns the block's device.
    #[cfg(feature = "cuda")]
    pub(crate) fn device(&self) -> &dyn crate::device::Device {
        &*self.shared.device
    }

    /// Returns true if this process can read and write the block at its address.
    #[must_use]
    pub fn is_host_visible(&self) -> bool {
        self.shared.device.is_host_visible()
    }

    /// Records that work on another stream uses the block. After the free, the block is not reused until the work
    /// queued on that stream is done.
    pub fn record_stream(&self, stream: StreamId) {
        if let Some(id) = self.id {
            self.shared.core().record_stream(id, stream);
        }
    }

    /// Records a use on another stream that is not being captured. The free waits for it even while requests are routed
    /// to a private pool.
    #[cfg(feature = "cuda")]
    pub(crate) fn record_use(&self, stream: StreamId) {
        if let Some(id) = self.id {
            self.shared.core().record_use(id, stream);
        }
    }

    /// Returns the pool that the block came from.
    #[cfg(feature = "cuda")]
    pub(crate) fn pool(&self) -> memreel_snapshot::words::PoolId {
        self.id.map_or(memreel_snapshot::words::PoolId::DEFAULT, |id| self.shared.core().pool_of(id))
    }

    /// Gives the block a name, such as `"weights of layer 3"`, as PyTorch 2.14's `annotate` does.
    ///
    /// The name becomes an entry of the trace (`annotate`, with the caller's stack), so it is recorded only while
    /// recording is on, and not for a block that the filters exclude. Viewers, `memreel top`, `memreel at` and
    /// `memreel trace` show it with the block, those of PyTorch from 2.14 on. A block may get several names; an empty
    /// one is not recorded. Names are interned for the lifetime of the recorder; avoid unbounded names.
    ///
    /// ```
    /// use memreel::{Reel, recorder::Recording};
    ///
    /// let reel = Reel::builder().history(Recording::all()).build()?;
    /// let weights = reel.alloc(4_000_000)?;
    /// weights.annotate("weights of layer 3");
    /// let snapshot = reel.snapshot();
    /// let named = snapshot.device_traces[0].last().unwrap();
    /// assert_eq!(named.address, weights.address());
    /// assert_eq!(snapshot.user_metadata(named), "weights of layer 3");
    /// # Ok::<(), memreel::Error>(())
    /// ```
    pub fn annotate(&self, name: &str) {
        let Some(id) = self.id else { return };
        let stack = self.shared.track.stack_of_segment();
        self.shared.core().annotate(id, stack, name);
    }

    /// Frees the block as a drop does, but returns the error if that fails.
    ///
    /// # Errors
    /// [`is_device`](memreel_snapshot::words::Error::is_device) when the device cannot mark a stream that
    /// uses the block; the block is then never handed out again.
    pub fn free(mut self) -> Result<()> {
        self.id.take().map_or(Ok(()), |id| self.shared.free(id, self.stack))
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        // A drop cannot return an error. After a failure the block is never
        // reused, and the statistics count it as active.
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
