//! Raw blocks: blocks without a handle, which callers free by address.
//!
//! Their map is in the core, so that a request takes one lock. A map of handles
//! outside the core was tried; it cost two more locks and a reference count for
//! each request and each free.
#![forbid(unsafe_code)]

use super::caching_allocator::CachingAllocator;
use memreel_snapshot::words::{Address, Result, StackId, StreamId};

impl CachingAllocator {
    /// Allocates a raw block of at least `bytes` bytes for work on `stream`. It remains allocated until
    /// [`CachingAllocator::free_raw`], or until the allocator is dropped.
    ///
    /// # Errors
    /// The errors of [`CachingAllocator::alloc`].
    #[inline(always)]
    pub fn alloc_raw(&self, bytes: u64, stream: StreamId) -> Result<Address> {
        self.shared.serve(bytes, stream, |core, grant, _| {
            core.raw.insert(grant.address, grant.id);
            grant.address
        })
    }

    /// Frees a raw block; `None` if no raw block has the address.
    ///
    /// The method is safe, because an address is only a number: safe code can neither read nor write through it, and a
    /// block that an [`Allocation`](super::Allocation) or a buffer holds is not a raw block. Unsafe code that uses the
    /// memory of a raw block must ensure that no code with access to the allocator frees the block meanwhile.
    ///
    /// # Errors
    /// [`is_device`](memreel_snapshot::words::Error::is_device) when the device cannot mark a stream that
    /// uses the block; the block is then never handed out again.
    #[inline(always)]
    pub fn free_raw(&self, address: Address) -> Option<Result<()>> {
        // Whether the allocation was filtered out is known only under the lock. If it was, the free drops this stack.
        let stack = self.shared.track.stack_of_free(StackId::NONE);
        let mut core = self.shared.core();
        let id = core.raw.remove(&address)?;
        Some(core.free(id, stack))
    }

    /// Gives a raw block a name, as [`Allocation::annotate`](super::Allocation::annotate) does. Returns false if no raw
    /// block has the address.
    pub fn annotate_raw(&self, address: Address, name: &str) -> bool {
        let stack = self.shared.track.stack_of_segment();
        let core = self.shared.core();
        core.raw.get(&address).map(|id| core.annotate(*id, stack, name)).is_some()
    }

    /// Records that work on another stream uses a raw block. Returns false if no raw block has the address.
    pub fn record_stream_raw(&self, address: Address, stream: StreamId) -> bool {
        let mut core = self.shared.core();
        let id = core.raw.get(&address).copied();
        id.map(|id| core.record_stream(id, stream)).is_some()
    }
}
