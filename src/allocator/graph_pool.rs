//! The private pool of a captured graph, which only the graph begins, ends and releases.
#![forbid(unsafe_code)]

use super::{
    caching_allocator::CachingAllocator,
    private_pools::{Owner, PoolOptions, Route},
};
use memreel_snapshot::words::{PoolId, Result};

/// A reference to the private pool of a graph.
///
/// A launch of the graph also writes to free blocks of the pool, those of slices that were dropped during the capture.
/// So the pool supplies no request after the capture, and its memory is released when no graph needs it.
#[derive(Debug)]
pub(crate) struct GraphPool {
    allocator: CachingAllocator,
    id: PoolId,
}

impl GraphPool {
    /// Creates a pool with an id of the kind that graph captures have.
    pub(crate) fn new(allocator: &CachingAllocator) -> GraphPool {
        let id = allocator.shared.core().create_pool(true, Owner::Graph, PoolOptions::default());
        GraphPool { allocator: allocator.clone(), id }
    }

    pub(crate) fn id(&self) -> PoolId {
        self.id
    }

    pub(crate) fn allocator(&self) -> &CachingAllocator {
        &self.allocator
    }

    /// Routes the requests of this thread to the pool until the returned value is dropped.
    pub(crate) fn begin(&self) -> Result<BegunPool> {
        let (allocator, id) = (self.allocator.clone(), self.id);
        allocator.shared.core().private.begin(id, Owner::Graph, &mut Some(Route::Thread))?;
        Ok(BegunPool(GraphPool { allocator, id }))
    }
}

impl Drop for GraphPool {
    fn drop(&mut self) {
        // This is how PyTorch destroys a pool. What is still allocated remains.
        let _ = self.allocator.shared.core().private.release(self.id, Owner::Graph);
        let _ = self.allocator.empty_pool(self.id);
    }
}

/// A reference to a pool that supplies requests.
#[derive(Debug)]
pub(crate) struct BegunPool(GraphPool);

impl Drop for BegunPool {
    fn drop(&mut self) {
        let _ = self.0.allocator.shared.core().private.end(self.0.id, Owner::Graph);
    }
}
