//! The handle of a caching allocator: requests, private pools, limits, settings and statistics.
#![forbid(unsafe_code)]

use std::{fmt, sync::Arc};

use super::{
    allocation::Allocation,
    private_pools::{Owner, PoolOptions, Route},
    settings::Settings,
    shared::Shared,
    stats::{MemInfo, MemoryStats},
    summary::MemorySummary,
    tally::Tally,
};
use crate::{device::Device, process::fork, recorder::Track};
use memreel_snapshot::words::{DeviceId, Error, OutOfMemory, PoolId, Result, StackId, StreamId};

/// Allocates memory of one device, caches what is freed, and records events.
///
/// It behaves like PyTorch 2.11's CUDA allocator, event for event. Clones are
/// handles of the same allocator.
///
/// ```
/// use memreel::{DeviceId, StreamId};
/// use memreel::allocator::CachingAllocator;
/// use memreel::device::Host;
/// use memreel::recorder::Recorder;
///
/// let allocator = CachingAllocator::new(Host::new(), &Recorder::new().track(DeviceId(0)));
/// let block = allocator.alloc(1000, StreamId::DEFAULT)?;
/// assert_eq!(allocator.memory_allocated(), 1024);
/// drop(block);
/// assert_eq!(allocator.memory_allocated(), 0);
/// assert_eq!(allocator.memory_reserved(), 2 << 20, "the segment stays cached");
/// # Ok::<(), memreel::Error>(())
/// ```
#[derive(Clone)]
pub struct CachingAllocator {
    pub(super) shared: Arc<Shared>,
}

/// The bytes that an allocator holds at one moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HeldBytes {
    /// The bytes in segments.
    pub(crate) reserved_bytes: u64,
    /// The bytes in blocks that are allocated or whose free is pending on a stream.
    pub(crate) active_bytes: u64,
}

impl CachingAllocator {
    /// Creates an allocator for a device that records on a track, with default settings. Give each allocator its own
    /// track: readers attribute all events on a track to one allocator.
    #[must_use]
    pub fn new(device: impl Device + 'static, track: &Track) -> CachingAllocator {
        CachingAllocator::with_settings(device, track, Settings::default())
    }

    /// Creates an allocator with the given settings, like [`CachingAllocator::new`].
    #[must_use]
    pub fn with_settings(
        device: impl Device + 'static,
        track: &Track,
        settings: Settings,
    ) -> CachingAllocator {
        let device: Arc<dyn Device> = Arc::new(device);
        let shared = Arc::new(Shared::new(device, track, settings));
        fork::register(fork::Level::Allocator, &shared);
        CachingAllocator { shared }
    }

    /// Changes settings at run time; [`Settings::updated`] has the rules.
    ///
    /// # Errors
    /// [`Error::is_invalid_option`] for an invalid text; then nothing changes.
    pub fn update_settings(&self, text: &str) -> Result<()> {
        let mut core = self.shared.core();
        core.settings = core.settings.updated(text)?;
        Ok(())
    }

    /// Returns a copy of the settings in force.
    #[must_use]
    pub fn settings(&self) -> Settings {
        self.shared.core().settings.clone()
    }

    /// Allocates a block of at least `bytes` bytes for work on `stream`. The
    /// block returns to the cache when the handle is dropped.
    ///
    /// # Errors
    /// [`Error::is_invalid_size`] for zero bytes or 2^60 and more;
    /// [`Error::is_out_of_memory`] when neither the cache nor the device has
    /// room, even after all cached memory was given back;
    /// [`Error::is_device`] when the device fails for another reason.
    pub fn alloc(&self, bytes: u64, stream: StreamId) -> Result<Allocation> {
        self.shared.serve(bytes, stream, |_, grant, stack| {
            Allocation::new(self.shared.clone(), grant, bytes, stream, stack)
        })
    }

    /// Waits for frees that are pending on streams, then gives every unused
    /// segment back to the device.
    ///
    /// # Errors
    /// [`Error::is_device`] when waiting for a stream fails.
    pub fn empty_cache(&self) -> Result<()> {
        let stack = self.shared.track.stack_of_free(StackId::NONE);
        self.shared.growth().release_cached(PoolId::DEFAULT, stack)
    }

    /// Creates a private pool, whose memory serves only requests that are
    /// routed to it. The caller has one reference to it until
    /// [`CachingAllocator::release_pool`].
    #[must_use]
    pub fn create_pool(&self, options: PoolOptions) -> PoolId {
        self.shared.core().create_pool(false, Owner::Program, options)
    }

    /// Creates a private pool with default options and an id of the kind that graph captures have.
    #[must_use]
    pub fn create_capture_pool(&self) -> PoolId {
        self.shared.core().create_pool(true, Owner::Program, PoolOptions::default())
    }

    /// Creates a private pool with an id that the caller chooses.
    ///
    /// # Errors
    /// [`Error::is_misuse`] for the default pool's id and for an id in use.
    pub fn create_pool_as(&self, pool: PoolId, options: PoolOptions) -> Result<()> {
        self.shared.core().create_pool_as(pool, options)
    }

    /// Starts routing requests to a private pool and takes a reference to it.
    ///
    /// If several pools match a request, the most recently begun one supplies it. While any pool is begun, frees that
    /// wait for streams are deferred, and a failing request does not release cached memory.
    ///
    /// # Errors
    /// [`Error::is_misuse`] for an unknown pool, one that is already begun, and the pool of a captured graph.
    pub fn begin_pool(&self, pool: PoolId, route: Route) -> Result<()> {
        let mut route = Some(route);
        self.shared.core().private.begin(pool, Owner::Program, &mut route)
    }

    /// Stops routing requests to a private pool. The reference that
    /// [`CachingAllocator::begin_pool`] took remains.
    ///
    /// # Errors
    /// [`Error::is_misuse`] for a pool that is not begun.
    pub fn end_pool(&self, pool: PoolId) -> Result<()> {
        // The filter is dropped after this statement, when the core is unlocked.
        let _filter = self.shared.core().private.end(pool, Owner::Program)?;
        Ok(())
    }

    /// Drops one reference to a private pool. Without references, its free
    /// memory is released by the next [`CachingAllocator::empty_cache`].
    ///
    /// # Errors
    /// [`Error::is_misuse`] for an unknown pool, one without references, and the pool of a captured graph.
    pub fn release_pool(&self, pool: PoolId) -> Result<()> {
        self.shared.core().private.release(pool, Owner::Program)
    }

    /// Returns the number of references to a private pool: one for its creator and one for each
    /// [`CachingAllocator::begin_pool`], minus those that were released.
    ///
    /// # Errors
    /// [`Error::is_misuse`] for an unknown pool.
    pub fn pool_use_count(&self, pool: PoolId) -> Result<u64> {
        self.shared.core().private.use_count(pool)
    }

    /// Gives the free segments of one private pool without references back to the device.
    ///
    /// # Errors
    /// [`Error::is_device`] when waiting for a stream fails.
    pub fn empty_pool(&self, pool: PoolId) -> Result<()> {
        let stack = self.shared.track.stack_of_free(StackId::NONE);
        self.shared.growth().release_cached(pool, stack)
    }

    /// Registers an observer that is called for every failed request. Observers
    /// are called in the order of their registration.
    pub fn on_oom(&self, observer: impl Fn(&mut OutOfMemory) + Send + Sync + 'static) {
        self.shared.oom_observers.add(Arc::new(observer));
    }

    /// Returns the id under which the device's events are recorded.
    #[must_use]
    pub fn device_id(&self) -> DeviceId {
        self.shared.track.device()
    }

    /// Returns the name of the device that the memory comes from.
    #[must_use]
    pub fn device_name(&self) -> String {
        self.shared.device.name()
    }

    /// Returns true if this process can read and write the memory at its address.
    #[must_use]
    pub fn is_host_visible(&self) -> bool {
        self.shared.device.is_host_visible()
    }

    /// Returns the device. It is not public: memory that is taken from or given
    /// to the device directly would bypass the allocator.
    #[cfg(feature = "cuda")]
    pub(crate) fn device(&self) -> &dyn Device {
        &*self.shared.device
    }

    /// Limits the allocator to a fraction of the device's memory; 1 removes the
    /// limit (`docs/caching-allocator.md` 2.7).
    ///
    /// # Errors
    /// [`Error::is_invalid_option`] for a fraction outside 0 to 1.
    pub fn set_memory_fraction(&self, fraction: f64) -> Result<()> {
        if !(0.0..=1.0).contains(&fraction) {
            return Err(Error::invalid_option(
                "memory fraction",
                &fraction.to_string(),
                "a number from 0.0 to 1.0",
            ));
        }
        self.shared.core().supply.set_allowed_fraction(fraction);
        Ok(())
    }

    /// Limits the allocator to `bytes` bytes of segments; `None` removes the limit.
    pub fn set_memory_limit(&self, bytes: Option<u64>) {
        self.shared.core().supply.set_allowed_bytes(bytes);
    }

    /// Returns the limit in force, in bytes.
    #[must_use]
    pub fn memory_limit(&self) -> Option<u64> {
        self.shared.core().supply.allowed_bytes()
    }

    /// Returns all statistics, read at one instant.
    #[must_use]
    pub fn stats(&self) -> MemoryStats {
        self.shared.core().stats.stats()
    }

    /// Makes requests ignore the frees that wait for streams; [`CachingAllocator::complete_stream`] completes them. For
    /// callers that make streams idle themselves, one at a time: a request then need not query each stream.
    pub(crate) fn complete_by_stream(&self) {
        self.shared.core().completes_by_stream = true;
    }

    /// Completes the frees that wait for a stream and whose marks the stream has passed.
    pub(crate) fn complete_stream(&self, stream: StreamId) -> Result<()> {
        self.shared.core().complete_stream(stream, StackId::NONE)
    }

    /// Returns the current bytes in segments and in blocks. This is cheaper than [`CachingAllocator::stats`], which
    /// copies a kilobyte, and can be called after every request.
    pub(crate) fn held_bytes(&self) -> HeldBytes {
        let stats = &self.shared.core().stats;
        let current = |tally: &Tally| tally.current().cast_unsigned();
        HeldBytes {
            reserved_bytes: current(&stats.reserved_bytes),
            active_bytes: current(&stats.active_bytes),
        }
    }

    /// Returns the bytes in allocated blocks.
    #[must_use]
    pub fn memory_allocated(&self) -> u64 {
        self.stats().allocated_bytes.all.current.cast_unsigned()
    }

    /// Returns the peak of [`CachingAllocator::memory_allocated`], in bytes.
    #[must_use]
    pub fn max_memory_allocated(&self) -> u64 {
        self.stats().allocated_bytes.all.peak.cast_unsigned()
    }

    /// Returns the bytes in segments that were taken from the device.
    #[must_use]
    pub fn memory_reserved(&self) -> u64 {
        self.stats().reserved_bytes.all.current.cast_unsigned()
    }

    /// Returns the peak of [`CachingAllocator::memory_reserved`], in bytes.
    #[must_use]
    pub fn max_memory_reserved(&self) -> u64 {
        self.stats().reserved_bytes.all.peak.cast_unsigned()
    }

    /// Returns the size in bytes of the largest cached block.
    #[must_use]
    pub fn largest_free_block(&self) -> u64 {
        let core = self.shared.core();
        let free = core.pools.iter().flat_map(|pool| pool.iter().map(|id| core.blocks[id].bytes));
        free.max().unwrap_or(0)
    }

    /// Returns the free and the total memory of the device, as `cudaMemGetInfo` does.
    #[must_use]
    pub fn mem_get_info(&self) -> MemInfo {
        MemInfo { free_bytes: self.shared.device.free_bytes(), total_bytes: self.shared.device.total_bytes() }
    }

    /// Returns the statistics as the table that PyTorch's `memory_summary()` prints.
    #[must_use]
    pub fn memory_summary(&self) -> MemorySummary {
        MemorySummary::new(self.device_id(), self.stats())
    }

    /// Resets every peak to the current value.
    pub fn reset_peak_memory_stats(&self) {
        self.shared.core().stats.reset_peak();
    }

    /// Resets every accumulated sum and every counter to zero.
    pub fn reset_accumulated_memory_stats(&self) {
        self.shared.core().stats.reset_accumulated();
    }
}

impl fmt::Debug for CachingAllocator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CachingAllocator")
            .field("device", &self.shared.device)
            .field("allocated_bytes", &self.memory_allocated())
            .field("reserved_bytes", &self.memory_reserved())
            .finish_non_exhaustive()
    }
}
