//! The caching allocator's handle: alloc, free, record_stream, empty_cache, settings and statistics.
#![forbid(unsafe_code)]

use std::{fmt, sync::Arc};

use super::{
    allocation::Allocation,
    private::{PoolOptions, Route},
    settings::Settings,
    shared::Shared,
    stats::{MemInfo, MemoryStats},
    summary::MemorySummary,
    tally::Tally,
};
use crate::{
    device::Device,
    error::{Error, OutOfMemory, Result},
    event::{DeviceId, PoolId, StackId, StreamId},
    recorder::Track,
};

/// Memory of one device, cached and recorded. Clones are the same allocator.
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
/// assert_eq!(allocator.memory_reserved(), 2 << 20, "the segment stays, to be used again");
/// # Ok::<(), memreel::Error>(())
/// ```
#[derive(Clone)]
pub struct CachingAllocator {
    pub(super) shared: Arc<Shared>,
}

impl CachingAllocator {
    /// An allocator for a device, recording on a track. No two allocators
    /// should share a track: their events would be taken for one's.
    #[must_use]
    pub fn new(device: impl Device + 'static, track: &Track) -> CachingAllocator {
        CachingAllocator::with_settings(device, track, Settings::default())
    }

    /// As [`CachingAllocator::new`], with other settings than the default ones.
    #[must_use]
    pub fn with_settings(
        device: impl Device + 'static,
        track: &Track,
        settings: Settings,
    ) -> CachingAllocator {
        let device: Arc<dyn Device> = Arc::new(device);
        CachingAllocator { shared: Arc::new(Shared::new(device, track, settings)) }
    }

    /// Changes settings at run time, as [`Settings::updated`] reads them.
    ///
    /// # Errors
    /// [`Error::is_invalid_option`]; nothing is changed.
    pub fn update_settings(&self, text: &str) -> Result<()> {
        let mut heap = self.shared.heap();
        heap.settings = heap.settings.updated(text)?;
        Ok(())
    }

    /// The settings in force.
    #[must_use]
    pub fn settings(&self) -> Settings {
        self.shared.heap().settings.clone()
    }

    /// A block of at least that many bytes, for work on that stream. It
    /// returns to the cache when the handle is dropped.
    ///
    /// # Errors
    /// [`Error::is_invalid_size`] for zero bytes or 2^60 and more;
    /// [`Error::is_out_of_memory`] when neither the cache nor the device has
    /// room, even after everything cached was given back;
    /// [`Error::is_device`] when the device fails otherwise.
    pub fn alloc(&self, bytes: u64, stream: StreamId) -> Result<Allocation> {
        self.shared.serve(bytes, stream, |_, grant, stack| {
            Allocation::new(self.shared.clone(), grant, bytes, stream, stack)
        })
    }

    /// Gives every segment that is not in use back to the device.
    ///
    /// # Errors
    /// [`Error::is_device`] when a stream cannot be waited for.
    pub fn empty_cache(&self) -> Result<()> {
        let stack = self.shared.track.stack_of_free(StackId::NONE);
        self.shared.heap().release_cached(PoolId::DEFAULT, stack)
    }

    /// A new private pool, whose memory serves only requests that are routed
    /// to it. It is held until [`CachingAllocator::release_pool`].
    #[must_use]
    pub fn create_pool(&self, options: PoolOptions) -> PoolId {
        self.shared.heap().create_pool(false, options)
    }

    /// As [`CachingAllocator::create_pool`], with the kind of id that graph captures have.
    #[must_use]
    pub fn create_capture_pool(&self) -> PoolId {
        self.shared.heap().create_pool(true, PoolOptions::default())
    }

    /// As [`CachingAllocator::create_pool`], with an id that the caller chose.
    ///
    /// # Errors
    /// [`Error::is_misuse`] for the default pool's id, or one that is in use.
    pub fn create_pool_as(&self, pool: PoolId, options: PoolOptions) -> Result<()> {
        self.shared.heap().create_pool_as(pool, options)
    }

    /// Routes requests to a private pool from now on, and holds it once more.
    /// The last begun comes first. While any pool is routed to, frees that wait
    /// for streams are put off, and the cache is not given up for a request.
    ///
    /// # Errors
    /// [`Error::is_misuse`] for an unknown pool or one that is begun already.
    pub fn begin_pool(&self, pool: PoolId, route: Route) -> Result<()> {
        self.shared.heap().private.begin(pool, route)
    }

    /// Ends what [`CachingAllocator::begin_pool`] began; the hold remains.
    ///
    /// # Errors
    /// [`Error::is_misuse`] for a pool that is not begun.
    pub fn end_pool(&self, pool: PoolId) -> Result<()> {
        self.shared.heap().private.end(pool)
    }

    /// One hold less on a private pool. At none its free memory goes with the
    /// next [`CachingAllocator::empty_cache`].
    ///
    /// # Errors
    /// [`Error::is_misuse`] for a pool that nobody holds.
    pub fn release_pool(&self, pool: PoolId) -> Result<()> {
        self.shared.heap().private.release(pool)
    }

    /// Gives back the free segments of one private pool that nobody holds.
    ///
    /// # Errors
    /// As [`CachingAllocator::empty_cache`].
    pub fn empty_pool(&self, pool: PoolId) -> Result<()> {
        let stack = self.shared.track.stack_of_free(StackId::NONE);
        self.shared.heap().release_cached(pool, stack)
    }

    /// Calls `observer` for every request that fails, after those before it.
    pub fn on_oom(&self, observer: impl Fn(&mut OutOfMemory) + Send + Sync + 'static) {
        self.shared.oom_observers().push(Arc::new(observer));
    }

    /// The device's ordinal.
    #[must_use]
    pub fn device_id(&self) -> DeviceId {
        self.shared.track.device()
    }

    /// The device the memory comes from.
    #[must_use]
    pub fn device(&self) -> &Arc<dyn Device> {
        &self.shared.device
    }

    /// Holds at most a fraction of the device's memory; 1 lifts the limit
    /// (caching-allocator.md 2.7).
    ///
    /// # Errors
    /// [`Error::is_invalid_option`] outside 0 to 1.
    pub fn set_memory_fraction(&self, fraction: f64) -> Result<()> {
        if !(0.0..=1.0).contains(&fraction) {
            return Err(Error::invalid_option(
                "memory fraction",
                &fraction.to_string(),
                "a number from 0.0 to 1.0",
            ));
        }
        self.shared.heap().segments.set_allowed_fraction(fraction);
        Ok(())
    }

    /// Holds at most that many bytes; `None` lifts the limit.
    pub fn set_memory_limit(&self, bytes: Option<u64>) {
        self.shared.heap().segments.set_allowed_bytes(bytes);
    }

    /// The limit in force.
    #[must_use]
    pub fn memory_limit(&self) -> Option<u64> {
        self.shared.heap().segments.allowed_bytes()
    }

    /// All statistics at once.
    #[must_use]
    pub fn stats(&self) -> MemoryStats {
        self.shared.heap().stats.stats()
    }

    /// Completes the frees whose streams have come so far, as the next request would.
    pub(crate) fn complete_passed(&self) -> Result<()> {
        self.shared.heap().complete_passed(StackId::NONE)
    }

    /// Bytes in segments and in blocks, now. [`CachingAllocator::stats`] copies
    /// a kilobyte, too much to ask after every request.
    pub(crate) fn held_bytes(&self) -> (u64, u64) {
        let stats = &self.shared.heap().stats;
        let current = |tally: &Tally| tally.current().cast_unsigned();
        (current(&stats.reserved_bytes), current(&stats.allocated_bytes))
    }

    /// Bytes in blocks the program holds.
    #[must_use]
    pub fn memory_allocated(&self) -> u64 {
        self.stats().allocated_bytes.all.current.cast_unsigned()
    }

    /// The most that [`CachingAllocator::memory_allocated`] has been.
    #[must_use]
    pub fn max_memory_allocated(&self) -> u64 {
        self.stats().allocated_bytes.all.peak.cast_unsigned()
    }

    /// Bytes in segments held from the device.
    #[must_use]
    pub fn memory_reserved(&self) -> u64 {
        self.stats().reserved_bytes.all.current.cast_unsigned()
    }

    /// The most that [`CachingAllocator::memory_reserved`] has been.
    #[must_use]
    pub fn max_memory_reserved(&self) -> u64 {
        self.stats().reserved_bytes.all.peak.cast_unsigned()
    }

    /// The largest free block: what can be had without asking the device.
    #[must_use]
    pub fn largest_free_block(&self) -> u64 {
        let heap = self.shared.heap();
        let free = heap.pools.iter().flat_map(|pool| pool.iter().map(|id| heap.blocks[id].bytes));
        free.max().unwrap_or(0)
    }

    /// The free and the total memory of the device, as `cudaMemGetInfo` reports them.
    #[must_use]
    pub fn mem_get_info(&self) -> MemInfo {
        MemInfo { free_bytes: self.shared.device.free_bytes(), total_bytes: self.shared.device.total_bytes() }
    }

    /// The statistics as a table.
    #[must_use]
    pub fn memory_summary(&self) -> MemorySummary {
        MemorySummary::new(self.device_id(), self.stats())
    }

    /// Lets every peak begin again at the present value.
    pub fn reset_peak_memory_stats(&self) {
        self.shared.heap().stats.reset_peak();
    }

    /// Lets every sum begin again at zero.
    pub fn reset_accumulated_memory_stats(&self) {
        self.shared.heap().stats.reset_accumulated();
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
