//! Blocks without a handle: callers that know nothing but an address give it back.
//!
//! The map stands in the heap, so that a request takes one lock. A map of
//! handles outside of it was tried: two locks more, and a reference count, for
//! each request and each free.
#![forbid(unsafe_code)]

use super::caching_allocator::CachingAllocator;
use crate::{
    error::Result,
    event::{Address, StackId, StreamId},
};

impl CachingAllocator {
    /// As [`CachingAllocator::alloc`]; the block is held until [`CachingAllocator::free_raw`].
    #[inline(always)]
    pub fn alloc_raw(&self, bytes: u64, stream: StreamId) -> Result<Address> {
        self.shared.serve(bytes, stream, |heap, grant, _| {
            heap.held.insert(grant.address, grant.id);
            grant.address
        })
    }

    /// Takes a held block back; `None` when the address is none.
    #[inline(always)]
    pub fn free_raw(&self, address: Address) -> Option<Result<()>> {
        // Whether the filters left the block out is known under the lock; its free then drops this stack.
        let stack = self.shared.track.stack_of_free(StackId::NONE);
        let mut heap = self.shared.heap();
        let id = heap.held.remove(&address)?;
        Some(heap.free(id, stack))
    }

    /// Another stream uses a held block; false when the address is none.
    pub fn record_stream_raw(&self, address: Address, stream: StreamId) -> bool {
        let mut heap = self.shared.heap();
        let id = heap.held.get(&address).copied();
        id.map(|id| heap.record_stream(id, stream)).is_some()
    }
}
