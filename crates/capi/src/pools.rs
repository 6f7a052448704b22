//! Private pools as PyTorch uses them: under PyTorch's ids, with a C++ function that selects streams.

use std::ffi::c_int;

use super::{
    border::status,
    figures::number,
    filters::{self, Chosen, Filter, StreamFilter},
    state::state,
};
use memreel::{
    PoolId, Result, StreamId,
    allocator::{CachingAllocator, PoolOptions, Route},
};

/// Calls the functions of the begun pools to choose the pool for a request; the choice ends with the returned value.
/// They may throw, so this is not called inside the code that catches panics.
#[inline(always)]
pub(super) fn choose(device: c_int, stream: StreamId) -> Option<Chosen> {
    if filters::are_any() { ask(device, stream) } else { None }
}

#[cold]
#[inline(never)]
fn ask(device: c_int, stream: StreamId) -> Option<Chosen> {
    state().ok()?.filters.choose(device, stream)
}

/// Starts routing requests to a pool, for `set_begin_allocate_to_pool`.
///
/// Requests on streams that the filter accepts go to the pool; without a
/// filter, all requests of the calling thread do. An unknown pool is created.
///
/// # Safety
/// `filter` is null or a live `std::function<bool(cudaStream_t)>` of libstdc++,
/// whose copies may be called from any thread, and from several at once.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn memreel_begin_allocate_to_pool(
    device: c_int,
    pool_first: u64,
    pool_second: u64,
    filter: *const StreamFilter,
) {
    // SAFETY: the caller's promise.
    let filter = unsafe { Filter::copy(filter) };
    let pool = PoolId { graph: pool_first, user: pool_second };
    status(|| {
        let state = state()?;
        let allocator = state.allocator(device)?;
        let Some(filter) = filter else { return begin(allocator, pool, Route::Thread) };
        begin(allocator, pool, Route::Streams(Box::new(move |_| filters::is_chosen(pool))))?;
        state.filters.add(device, pool, filter);
        Ok(())
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
    let pool = PoolId { graph: pool_first, user: pool_second };
    status(|| {
        let state = state()?;
        state.allocator(device)?.end_pool(pool)?;
        state.filters.remove(device, pool);
        Ok(())
    });
}

/// Drops one reference to a pool, for `set_release_pool`. Without references its free memory may be released.
#[unsafe(no_mangle)]
pub extern "C" fn memreel_release_pool(device: c_int, pool_first: u64, pool_second: u64) {
    status(|| state()?.allocator(device)?.release_pool(PoolId { graph: pool_first, user: pool_second }));
}

/// Creates a pool under one of PyTorch's ids, with one reference, as the constructor of `torch.cuda.MemPool` does.
#[unsafe(no_mangle)]
pub extern "C" fn memreel_create_pool(
    device: c_int,
    pool_first: u64,
    pool_second: u64,
    use_on_oom: c_int,
    no_split: c_int,
) -> c_int {
    let options = PoolOptions::default().use_on_oom(use_on_oom != 0).no_split(no_split != 0);
    let pool = PoolId { graph: pool_first, user: pool_second };
    status(|| state()?.allocator(device)?.create_pool_as(pool, options))
}

/// Returns the number of references to a pool; -1 if there is no such pool.
#[unsafe(no_mangle)]
pub extern "C" fn memreel_pool_use_count(device: c_int, pool_first: u64, pool_second: u64) -> i64 {
    let pool = PoolId { graph: pool_first, user: pool_second };
    let count = || Ok(i64::try_from(state()?.allocator(device)?.pool_use_count(pool)?).unwrap_or(i64::MAX));
    number(count, -1)
}

/// Returns the unused segments of a pool without references to its device.
#[unsafe(no_mangle)]
pub extern "C" fn memreel_empty_pool(device: c_int, pool_first: u64, pool_second: u64) -> c_int {
    status(|| state()?.allocator(device)?.empty_pool(PoolId { graph: pool_first, user: pool_second }))
}
