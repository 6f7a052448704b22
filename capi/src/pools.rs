//! Private pools as PyTorch uses them: under PyTorch's ids, with a C++ function that selects streams.

use std::ffi::{c_int, c_void};

use super::{border::status, state::state};
use memreel::{
    PoolId, Result, StreamId,
    allocator::{CachingAllocator, PoolOptions, Route},
};

/// A `std::function<bool(cudaStream_t)>` in the layout of libstdc++: its
/// storage, the function that copies and destroys it, the function that calls it.
#[repr(C)]
#[derive(Debug)]
pub struct StreamFilter {
    storage: [usize; 2],
    manager: Option<unsafe extern "C-unwind" fn(*mut [usize; 2], *const [usize; 2], c_int) -> bool>,
    invoker: Option<unsafe extern "C-unwind" fn(*const [usize; 2], *mut *mut c_void) -> bool>,
}

const CLONE: c_int = 2;
const DESTROY: c_int = 3;

/// A copy of PyTorch's function, because the original lives only during the call that passes it.
struct Filter(StreamFilter);

// SAFETY: PyTorch's own allocator keeps such functions and calls them from any
// thread under its lock; memreel calls them under its allocator's lock.
unsafe impl Send for Filter {}

impl Filter {
    /// Copies the function; `None` if it is null or empty.
    ///
    /// # Safety
    /// `given` is null or a live `std::function` of libstdc++.
    unsafe fn copy(given: *const StreamFilter) -> Option<Filter> {
        // SAFETY: the caller's promise.
        let given = unsafe { given.as_ref()? };
        let (manager, invoker) = (given.manager?, given.invoker?);
        let mut storage = [0; 2];
        // SAFETY: the manager copies the live function's state into storage of the same size.
        unsafe { manager(&raw mut storage, &raw const given.storage, CLONE) };
        Some(Filter(StreamFilter { storage, manager: Some(manager), invoker: Some(invoker) }))
    }

    fn accepts(&self, stream: StreamId) -> bool {
        let mut stream = super::torch::pointer(memreel::Address(stream.handle()));
        // SAFETY: the invoker belongs to the storage, and takes a pointer to the argument.
        self.0.invoker.is_some_and(|call| unsafe { call(&raw const self.0.storage, &raw mut stream) })
    }
}

impl Drop for Filter {
    fn drop(&mut self) {
        let storage = &raw mut self.0.storage;
        if let Some(manager) = self.0.manager {
            // SAFETY: `copy` filled the storage, and it is not used again.
            unsafe { manager(storage, storage, DESTROY) };
        }
    }
}

/// Starts routing requests to a pool, for `set_begin_allocate_to_pool`.
///
/// Requests on streams that the filter accepts go to the pool; without a
/// filter, all requests of the calling thread do. An unknown pool is created.
///
/// # Safety
/// `filter` is null or a live `std::function<bool(cudaStream_t)>` of libstdc++,
/// whose copies may be called from any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memreel_begin_allocate_to_pool(
    device: c_int,
    pool_first: u64,
    pool_second: u64,
    filter: *const StreamFilter,
) {
    status(|| {
        // SAFETY: the caller's promise.
        let filter = unsafe { Filter::copy(filter) };
        let route = match filter {
            Some(filter) => Route::Streams(Box::new(move |stream| filter.accepts(stream))),
            None => Route::Thread,
        };
        begin(state()?.allocator(device)?, PoolId { graph: pool_first, user: pool_second }, route)
    });
}

/// Begins a pool. PyTorch creates a pool by beginning it, which takes one reference, not two.
fn begin(allocator: &CachingAllocator, pool: PoolId, route: Route) -> Result<()> {
    let is_new = allocator.create_pool_as(pool, PoolOptions::default()).is_ok();
    let begun = allocator.begin_pool(pool, route);
    if is_new { begun.and_then(|()| allocator.release_pool(pool)) } else { begun }
}

/// Stops routing requests to a pool, for `set_end_allocate_to_pool_fn`.
#[unsafe(no_mangle)]
pub extern "C" fn memreel_end_allocate_to_pool(device: c_int, pool_first: u64, pool_second: u64) {
    status(|| state()?.allocator(device)?.end_pool(PoolId { graph: pool_first, user: pool_second }));
}

/// Drops one reference to a pool, for `set_release_pool`. Without references its free memory may be released.
#[unsafe(no_mangle)]
pub extern "C" fn memreel_release_pool(device: c_int, pool_first: u64, pool_second: u64) {
    status(|| state()?.allocator(device)?.release_pool(PoolId { graph: pool_first, user: pool_second }));
}
