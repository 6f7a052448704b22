//! One run of the requests, with one allocator under one setting and with one order of addresses.

use std::sync::Arc;

use serde::Serialize;

use super::{
    requests::Requests,
    step::{Request, SlotIndex, Step},
};
use crate::{
    allocator::{Allocation, CachingAllocator, HeldBytes, PoolOptions, Route, Settings},
    device::Simulated,
    recorder::Recorder,
};
use memreel_snapshot::words::{Address, PoolId, Result, StreamId};

/// The results of one run.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct Outcome {
    /// The most bytes that were held from the device.
    pub reserved_peak_bytes: u64,
    /// The most bytes in blocks that the program held.
    pub allocated_peak_bytes: u64,
    /// The reserved bytes in no block when the most bytes were reserved. A block whose free waits for a stream
    /// is still a block.
    pub waste_at_peak_bytes: u64,
    /// The number of requests that failed.
    pub num_ooms: u64,
    /// The number of requests for which the allocator released its cache and asked the device again.
    pub num_alloc_retries: u64,
    /// The number of segments and ranges of pages that were taken from the device.
    pub num_device_alloc: u64,
    /// The number of segments and ranges of pages that were returned to it.
    pub num_device_free: u64,
    /// The number of pre-existing blocks for which the limit left no room.
    pub n_priors_refused: u64,
    /// The first request that failed. The run continues without its block; the program would have stopped.
    pub first_oom: Option<FailedRequest>,
}

impl Outcome {
    /// Returns the number of calls to the device, each of which takes about a hundred times as long as a
    /// request that the cache serves.
    #[must_use]
    pub fn num_device_calls(&self) -> u64 {
        self.num_device_alloc + self.num_device_free
    }
}

/// A request that failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[non_exhaustive]
pub struct FailedRequest {
    /// Its number among the requests, counted from 0.
    pub request: usize,
    /// The index of its trace entry, which has its stack.
    pub entry: usize,
    /// Its size in bytes.
    pub size_bytes: u64,
}

/// The order of the addresses that the simulated device gives to segments.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Order {
    /// From low addresses to high ones.
    Rising,
    /// From high addresses to low ones.
    Falling,
    /// The recorded addresses.
    Recorded,
}

/// Settings, limit and address order of one replay.
#[derive(Clone, Debug)]
pub(super) struct Conditions {
    pub(super) settings: Settings,
    /// The most bytes that the process may reserve, and the size of the device.
    pub(super) limit_bytes: Option<u64>,
    /// The size of the device without a limit; `None` is a device that is never full.
    pub(super) device_bytes: Option<u64>,
    pub(super) order: Order,
}

/// A run that has started.
#[derive(Debug)]
pub(super) struct Run<'a> {
    requests: &'a Requests,
    device: Arc<Simulated>,
    pub(super) allocator: CachingAllocator,
    slots: Vec<Option<Allocation>>,
    pools: Vec<PoolId>,
    n_requests: usize,
    peak: Peak,
    n_priors_refused: u64,
    n_failed: u64,
    first_oom: Option<FailedRequest>,
}

/// The peak of reserved bytes, and the bytes of it that were in no block.
#[derive(Clone, Copy, Debug, Default)]
struct Peak {
    reserved_bytes: u64,
    /// The reserved bytes after the last request.
    last_bytes: u64,
    waste_bytes: u64,
}

impl Peak {
    fn note(&mut self, HeldBytes { reserved_bytes, active_bytes }: HeldBytes) {
        let waste_bytes = reserved_bytes.saturating_sub(active_bytes);
        if reserved_bytes > self.reserved_bytes {
            (self.reserved_bytes, self.waste_bytes) = (reserved_bytes, waste_bytes);
        } else if reserved_bytes == self.reserved_bytes && reserved_bytes > self.last_bytes {
            self.waste_bytes = self.waste_bytes.max(waste_bytes);
        }
        self.last_bytes = reserved_bytes;
    }
}

/// The number of steps between two reports of progress.
const STRIDE: usize = 1 << 14;

/// Runs all requests. `progress` is called with the number of steps done since its last call.
pub(super) fn run(
    requests: &Requests,
    conditions: &Conditions,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<Outcome> {
    let mut run = Run::start(requests, conditions, &Recorder::new())?;
    for steps in requests.steps.chunks(STRIDE) {
        steps.iter().try_for_each(|step| run.step(step))?;
        progress(steps.len() as u64);
    }
    Ok(run.outcome())
}

impl<'a> Run<'a> {
    /// Creates an allocator and allocates the pre-existing blocks. Its counts begin after them.
    pub(super) fn start(
        requests: &'a Requests,
        conditions: &Conditions,
        recorder: &Recorder,
    ) -> Result<Run<'a>> {
        let device = Arc::new(device(requests, conditions));
        let track = recorder.track(requests.device);
        let allocator = CachingAllocator::with_settings(device.clone(), &track, conditions.settings.clone());
        allocator.complete_by_stream();
        if conditions.limit_bytes.is_some() && allocator.memory_limit().is_none() {
            allocator.set_memory_limit(conditions.limit_bytes);
        }
        let make = |id: &PoolId| match id.graph {
            0 => allocator.create_pool(PoolOptions::default()),
            _ => allocator.create_capture_pool(),
        };
        let mut run = Run {
            pools: requests.pools.iter().map(make).collect(),
            requests,
            device,
            allocator,
            slots: std::iter::repeat_with(|| None).take(requests.n_slots).collect(),
            n_requests: 0,
            peak: Peak::default(),
            n_priors_refused: 0,
            n_failed: 0,
            first_oom: None,
        };
        run.place_priors()?;
        Ok(run)
    }

    fn place_priors(&mut self) -> Result<()> {
        for prior in &self.requests.priors {
            match self.alloc(prior.bytes, prior.stream, prior.pool) {
                Ok(block) => self.slots[prior.slot as usize] = Some(block),
                Err(error) if error.is_out_of_memory() => self.n_priors_refused += 1,
                Err(error) => return Err(error),
            }
        }
        self.peak.note(self.allocator.held_bytes());
        self.allocator.reset_accumulated_memory_stats();
        Ok(())
    }

    /// Takes one step.
    #[inline]
    pub(super) fn step(&mut self, step: &Step) -> Result<()> {
        match *step {
            Step::Alloc { request, slot } => self.request(&request, slot),
            Step::Free { slot, .. } => self.take(slot).map_or(Ok(()), Allocation::free),
            Step::Fail { request } => self.fail(&request),
            Step::FreeLater { slot, .. } => self.free_later(slot),
            Step::Complete { slot, .. } => {
                self.device.set_idle(other_stream(slot));
                self.allocator.complete_stream(other_stream(slot))
            }
            Step::EmptyCache { .. } => self.allocator.empty_cache(),
        }
    }

    /// Returns the bytes that the allocator holds.
    pub(super) fn held_bytes(&self) -> HeldBytes {
        self.allocator.held_bytes()
    }

    /// Returns the number of requests that have failed.
    pub(super) fn n_failed(&self) -> u64 {
        self.n_failed
    }

    /// Returns the address of a slot's block, if there is one.
    pub(super) fn address(&self, slot: SlotIndex) -> Option<Address> {
        self.slots[slot as usize].as_ref().map(Allocation::address)
    }

    fn take(&mut self, slot: SlotIndex) -> Option<Allocation> {
        self.slots[slot as usize].take()
    }

    fn request(&mut self, request: &Request, slot: SlotIndex) -> Result<()> {
        let served = self.alloc(request.bytes, request.stream, request.pool);
        self.slots[slot as usize] = self.count(request, served)?;
        Ok(())
    }

    /// Repeats a request that failed when it was recorded. The lifetime of its block is not known, so a
    /// block that is allocated now is freed at once.
    fn fail(&mut self, request: &Request) -> Result<()> {
        let served = self.alloc(request.bytes, request.stream, request.pool);
        self.count(request, served)?.map_or(Ok(()), Allocation::free)
    }

    /// Serves a request again and again, and frees nothing meanwhile. Returns how often it was served, at most `most` times.
    pub(super) fn serve(&self, request: &Request, most: u32) -> Result<u32> {
        let mut blocks = Vec::new();
        for n_served in 0..most {
            match self.alloc(request.bytes, request.stream, request.pool) {
                Ok(block) => blocks.push(block),
                Err(error) if error.is_out_of_memory() => return Ok(n_served),
                Err(error) => return Err(error),
            }
        }
        Ok(most)
    }

    /// Counts a request, and returns its block if it was served. Errors other than out of memory end the run.
    fn count(&mut self, request: &Request, served: Result<Allocation>) -> Result<Option<Allocation>> {
        self.n_requests += 1;
        let block = match served {
            Ok(block) => Some(block),
            Err(error) if error.is_out_of_memory() => {
                self.n_failed += 1;
                self.first_oom.get_or_insert(FailedRequest {
                    request: self.n_requests - 1,
                    entry: request.entry as usize,
                    size_bytes: request.bytes,
                });
                None
            }
            Err(error) => return Err(error),
        };
        self.peak.note(self.allocator.held_bytes());
        Ok(block)
    }

    #[inline]
    fn alloc(&self, bytes: u64, stream: StreamId, pool: u16) -> Result<Allocation> {
        match pool.checked_sub(1) {
            None => self.allocator.alloc(bytes, stream),
            Some(index) => self.alloc_private(bytes, stream, self.pools[usize::from(index)]),
        }
    }

    fn alloc_private(&self, bytes: u64, stream: StreamId, pool: PoolId) -> Result<Allocation> {
        self.allocator.begin_pool(pool, Route::Thread)?;
        let served = self.allocator.alloc(bytes, stream);
        self.allocator.end_pool(pool)?;
        self.allocator.release_pool(pool)?;
        served
    }

    /// Frees a block whose free is completed later. Each such free waits for its own stream, so that it can
    /// be completed at its own place.
    fn free_later(&mut self, slot: SlotIndex) -> Result<()> {
        let Some(block) = self.take(slot) else { return Ok(()) };
        self.device.set_busy(other_stream(slot));
        block.record_stream(other_stream(slot));
        block.free()
    }

    pub(super) fn outcome(&self) -> Outcome {
        let stats = self.allocator.stats();
        Outcome {
            reserved_peak_bytes: stats.reserved_bytes.all.peak.cast_unsigned(),
            allocated_peak_bytes: stats.allocated_bytes.all.peak.cast_unsigned(),
            waste_at_peak_bytes: self.peak.waste_bytes,
            num_ooms: stats.num_ooms.cast_unsigned(),
            num_alloc_retries: stats.num_alloc_retries.cast_unsigned(),
            num_device_alloc: stats.num_device_alloc.cast_unsigned(),
            num_device_free: stats.num_device_free.cast_unsigned(),
            n_priors_refused: self.n_priors_refused,
            first_oom: self.first_oom,
        }
    }
}

/// Returns a stream that no recorded block can have: handles are addresses below 2^63.
fn other_stream(slot: SlotIndex) -> StreamId {
    StreamId::from_handle(1 << 63 | u64::from(slot))
}

/// Returns the simulated device. Its size is the memory limit, so that a fraction of the device in a
/// setting is a fraction of the limit.
fn device(requests: &Requests, conditions: &Conditions) -> Simulated {
    let total_bytes = conditions.limit_bytes.or(conditions.device_bytes);
    let total_bytes = total_bytes.unwrap_or_else(|| requests.ample_bytes());
    match conditions.order {
        Order::Rising => Simulated::new(total_bytes),
        Order::Falling => Simulated::new(total_bytes).falling(),
        Order::Recorded => {
            let addresses = &requests.recorded().addresses;
            Simulated::new(addresses.total_bytes.unwrap_or(total_bytes))
                .scripted(addresses.segments.iter().copied())
                .scripted_ranges(addresses.ranges.iter().copied())
        }
    }
}
