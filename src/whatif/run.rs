//! One run of the requests, with one allocator, one setting and one order of addresses.

use std::{ops::Range, sync::Arc};

use serde::Serialize;

use super::{
    bounds::Bounds,
    requests::Requests,
    start::Start,
    step::{EntryIndex, Request, SlotIndex, Step},
};
use crate::{
    allocator::{Allocation, CachingAllocator, HeldBytes, Layout, PoolOptions, Route, Settings},
    device::{Deed, Device, Simulated},
    recorder::Recorder,
};
use memreel_snapshot::words::{Address, Inventory, PoolId, Result, SeededMap, StreamId};

/// The results of one run.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct Outcome {
    /// The most bytes that were held from the device.
    pub reserved_peak_bytes: u64,
    /// The most bytes in allocated blocks.
    pub allocated_peak_bytes: u64,
    /// The reserved bytes outside blocks when the most bytes were reserved. A block whose free is pending is still a
    /// block.
    pub waste_at_peak_bytes: u64,
    /// The number of requests that failed.
    pub num_ooms: u64,
    /// The number of requests for which the allocator released its cache and called the device again.
    pub num_alloc_retries: u64,
    /// The number of segments and ranges of pages that were taken from the device.
    pub num_device_alloc: u64,
    /// The number of segments and ranges of pages that were returned to the device.
    pub num_device_free: u64,
    /// The number of blocks from before the history for which the limit left no room.
    pub n_priors_refused: u64,
    /// The first request that failed. The run continues without its block; the program would have stopped.
    pub first_oom: Option<FailedRequest>,
}

impl Outcome {
    /// Returns the number of calls to the device, each of which takes about a hundred times as long as a request from
    /// the cache.
    #[must_use]
    pub fn num_device_calls(&self) -> u64 {
        self.num_device_alloc + self.num_device_free
    }
}

/// A request that failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[non_exhaustive]
pub struct FailedRequest {
    /// The number of the request, counted from 0.
    pub request: usize,
    /// The index of its trace entry, which has the stack.
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
    /// The recorded addresses, of a device that does what the recorded one did.
    Recorded,
}

/// The settings, bounds and address order of one replay.
#[derive(Clone, Debug)]
pub(super) struct Conditions {
    pub(super) settings: Settings,
    pub(super) bounds: Bounds,
    pub(super) order: Order,
    /// Settings that replace the others before the step of an entry.
    pub(super) switch: Option<Switch>,
}

/// A change of settings at run time.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[non_exhaustive]
pub struct Switch {
    /// The trace entry: the first step that is read from it, or from a later one, has the new settings.
    pub entry: usize,
    /// The text of the new settings.
    pub conf: String,
}

/// A run that has started.
#[derive(Debug)]
pub(super) struct Run<'a> {
    requests: &'a Requests,
    device: Arc<Simulated>,
    pub(super) allocator: CachingAllocator,
    slots: Vec<Option<Allocation>>,
    switch: Option<Switch>,
    playback: Option<Playback>,
    n_requests: usize,
    peak: Peak,
    n_priors_refused: u64,
    n_failed: u64,
    first_oom: Option<FailedRequest>,
}

/// The peak of reserved bytes, and the bytes of it outside blocks.
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

/// How far the device has repeated the recorded one.
#[derive(Debug, Default)]
struct Playback {
    n_played: usize,
    /// Whether nothing is due, so that a step for which the device did nothing needs no call.
    is_idle: bool,
    collects_garbage: bool,
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
    /// Creates an allocator with the state from before the first step. Its statistics start from there.
    pub(super) fn start(
        requests: &'a Requests,
        conditions: &Conditions,
        recorder: &Recorder,
    ) -> Result<Run<'a>> {
        let conditions = &limited(requests, conditions);
        let device = Arc::new(device(requests, conditions));
        let track = recorder.track(requests.device);
        let allocator = CachingAllocator::with_settings(device.clone(), &track, conditions.settings.clone());
        allocator.complete_by_stream();
        let plays = conditions.order == Order::Recorded;
        let collects_garbage = conditions.settings.garbage_collection_threshold > 0.0;
        if plays {
            // The device refuses what the limit refused; only garbage collection reads the limit itself.
            let limit_bytes = requests.could_hold().map(|found| found.at_most_bytes);
            allocator.set_memory_limit(limit_bytes.filter(|_| collects_garbage));
        } else if conditions.bounds.limit_bytes().is_some() && allocator.memory_limit().is_none() {
            allocator.set_memory_limit(conditions.bounds.limit_bytes());
        }
        for pool in &requests.pools {
            allocator.create_pool_as(*pool, PoolOptions::default())?;
        }
        let mut run = Run {
            requests,
            device,
            allocator,
            slots: std::iter::repeat_with(|| None).take(requests.n_slots).collect(),
            switch: conditions.switch.clone(),
            playback: plays.then(|| Playback { collects_garbage, ..Playback::default() }),
            n_requests: 0,
            peak: Peak::default(),
            n_priors_refused: 0,
            n_failed: 0,
            first_oom: None,
        };
        match &requests.start {
            Start::Recorded(layout) => run.restore(layout)?,
            Start::Anew { .. } => run.place_priors()?,
        }
        let pending = requests.priors.iter().filter(|prior| prior.is_pending);
        pending.map(|prior| prior.slot).try_for_each(|slot| run.free_later(slot))?;
        run.peak.note(run.allocator.held_bytes());
        run.allocator.reset_accumulated_memory_stats();
        run.allocator.reset_peak_memory_stats();
        if plays {
            run.device.play(requests.deeds.iter().map(|(_, deed)| *deed).collect());
        }
        Ok(run)
    }

    fn restore(&mut self, layout: &Layout) -> Result<()> {
        let deeds = layout.deeds();
        let n = deeds.len();
        self.device.play(deeds);
        self.device.play_on(n, (StreamId::DEFAULT, 0), true);
        let blocks = self.allocator.restore(layout)?;
        self.device.stop_playing();
        let mut blocks: SeededMap<Address, Allocation> =
            blocks.into_iter().map(|block| (block.address(), block)).collect();
        for prior in &self.requests.priors {
            self.slots[prior.slot as usize] = blocks.remove(&prior.address);
        }
        Ok(())
    }

    fn place_priors(&mut self) -> Result<()> {
        for prior in &self.requests.priors {
            match self.alloc(prior.bytes, prior.stream, prior.pool) {
                Ok(block) => self.slots[prior.slot as usize] = Some(block),
                Err(error) if error.is_out_of_memory() => self.n_priors_refused += 1,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Takes one step.
    #[inline]
    pub(super) fn step(&mut self, step: &Step) -> Result<()> {
        self.prepare(step)?;
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

    /// Does what precedes a step: a change of settings, and the device's due actions.
    #[inline]
    fn prepare(&mut self, step: &Step) -> Result<()> {
        if let Some(switch) = self.switch.take_if(|switch| switch.entry <= step.entry()) {
            self.allocator.update_settings(&switch.conf)?;
        }
        if let Some(playback) = &mut self.playback {
            let (request, ends_full) = match step {
                Step::Alloc { request, .. } => (request, false),
                Step::Fail { request } => (request, true),
                _ => return Ok(()),
            };
            let deeds = playback.due(self.requests, request.entry);
            let is_new = !deeds.is_empty() || ends_full;
            if is_new || !playback.is_idle {
                self.device.play_on(deeds.len(), (request.stream, request.pool), ends_full);
                if !playback.collects_garbage {
                    let segment_bytes = self.requests.recorded().settings.segment_bytes(request.bytes);
                    let held_bytes = self.allocator.held_bytes().reserved_bytes;
                    let limit_bytes = limit_bytes(held_bytes, segment_bytes, deeds, ends_full);
                    self.allocator.set_memory_limit(limit_bytes);
                }
            }
            playback.is_idle = !is_new;
        }
        Ok(())
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

    /// Returns the size of the block at an address, including that of a free block after it.
    pub(super) fn bytes_from(&self, address: Address) -> u64 {
        let mut bytes = 0;
        self.allocator.inspect(&mut |segments| {
            let mut blocks = segments.iter().flat_map(|segment| &segment.blocks);
            let found = blocks.find(|block| block.address == address);
            let end = found.map(|block| block.address.offset(block.size_bytes));
            let behind = blocks.next().filter(|block| Some(block.address) == end && !block.state.is_active());
            bytes = found.into_iter().chain(behind).map(|block| block.size_bytes).sum();
        });
        bytes
    }

    fn take(&mut self, slot: SlotIndex) -> Option<Allocation> {
        self.slots[slot as usize].take()
    }

    fn request(&mut self, request: &Request, slot: SlotIndex) -> Result<()> {
        let served = self.alloc(request.bytes, request.stream, request.pool);
        self.slots[slot as usize] = self.count(request, served)?;
        Ok(())
    }

    /// Repeats a request that failed when it was recorded. The lifetime of its block is not known, so a block that is
    /// allocated now is freed immediately.
    fn fail(&mut self, request: &Request) -> Result<()> {
        let served = self.alloc(request.bytes, request.stream, request.pool);
        self.count(request, served)?.map_or(Ok(()), Allocation::free)
    }

    /// Allocates for a request repeatedly, without freeing. Returns how often that succeeded, at most `most` times.
    pub(super) fn serve(&self, request: &Request, most: u32) -> Result<u32> {
        let mut blocks = Vec::new();
        for n_served in 0..most {
            match self.ask(request) {
                Ok(block) => blocks.push(block),
                Err(error) if error.is_out_of_memory() => return Ok(n_served),
                Err(error) => return Err(error),
            }
        }
        Ok(most)
    }

    /// Counts a request, and returns its block if it succeeded. Errors other than out of memory end the run.
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

    /// Allocates one more block like that of a request, without counting it.
    pub(super) fn ask(&self, request: &Request) -> Result<Allocation> {
        self.alloc(request.bytes, request.stream, request.pool)
    }

    #[inline]
    fn alloc(&self, bytes: u64, stream: StreamId, pool: u16) -> Result<Allocation> {
        match pool.checked_sub(1) {
            None => self.allocator.alloc(bytes, stream),
            Some(index) => self.alloc_private(bytes, stream, self.requests.pools[usize::from(index)]),
        }
    }

    fn alloc_private(&self, bytes: u64, stream: StreamId, pool: PoolId) -> Result<Allocation> {
        self.allocator.begin_pool(pool, Route::Thread)?;
        let served = self.allocator.alloc(bytes, stream);
        self.allocator.end_pool(pool)?;
        self.allocator.release_pool(pool)?;
        served
    }

    /// Frees a block whose free is completed later. Each such free waits for its own stream, so that it can be
    /// completed at its own point.
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

impl Playback {
    /// Returns what the device did for the request of an entry.
    fn due<'r>(&mut self, requests: &'r Requests, entry: EntryIndex) -> &'r [(EntryIndex, Deed)] {
        let deeds = &requests.deeds[self.n_played..];
        let n = deeds.iter().take_while(|(of, _)| *of <= entry).count();
        self.n_played += n;
        &deeds[..n]
    }
}

/// Returns the limit under which a request has its recorded outcome, if it needs a segment in addition to the held
/// bytes. A limit also refuses a request that needs no new pages, which the device never sees.
fn limit_bytes(
    held_bytes: u64,
    segment_bytes: u64,
    deeds: &[(EntryIndex, Deed)],
    fails: bool,
) -> Option<u64> {
    let only_took = deeds.iter().all(|(_, deed)| *deed == Deed::Took);
    let begins_full = deeds.first().is_some_and(|(_, deed)| *deed == Deed::Took);
    match fails {
        true => only_took.then_some(0),
        false => begins_full.then(|| held_bytes.saturating_add(segment_bytes).saturating_sub(1)),
    }
}

/// Returns a stream that no recorded block can have: handles are addresses below 2^63.
fn other_stream(slot: SlotIndex) -> StreamId {
    StreamId::from_handle(1 << 63 | u64::from(slot))
}

/// Returns the conditions with a fraction of the device converted to a limit. The recorded fraction is part of the
/// bounds from the recorded run. Any other fraction is of the device if its size is known, otherwise of the bounds.
fn limited(requests: &Requests, conditions: &Conditions) -> Conditions {
    let mut conditions = conditions.clone();
    let fraction = conditions.settings.per_process_memory_fraction;
    let is_recorded =
        fraction.to_bits() == requests.recorded().settings.per_process_memory_fraction.to_bits();
    let device_bytes = requests.could_hold().and_then(|found| found.device_bytes);
    if let (false, Some(device_bytes)) = (is_recorded, device_bytes) {
        let limit_bytes = fraction_of(device_bytes, fraction);
        conditions.bounds = match conditions.bounds {
            Bounds::Ample => Bounds::Ample,
            bounds if bounds == requests.bounds() => Bounds::Limit(limit_bytes),
            Bounds::Device(bytes) | Bounds::Limit(bytes) => Bounds::Limit(bytes.min(limit_bytes)),
        };
    }
    if is_recorded || device_bytes.is_some() {
        conditions.settings = conditions.settings.per_process_memory_fraction(1.0);
    }
    conditions
}

#[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn fraction_of(bytes: u64, fraction: f64) -> u64 {
    (bytes as f64 * fraction) as u64
}

/// Returns the simulated device. Its size is the memory limit, so that a setting's fraction of the device is a fraction
/// of the limit.
fn device(requests: &Requests, conditions: &Conditions) -> Simulated {
    let total_bytes = conditions.bounds.most_bytes().unwrap_or_else(|| requests.ample_bytes());
    let device = match conditions.order {
        Order::Rising => Simulated::new(total_bytes),
        Order::Falling => Simulated::new(total_bytes).falling(),
        Order::Recorded => Simulated::new(requests.ranges_total_bytes.unwrap_or(total_bytes)).falling(),
    };
    let Start::Recorded(layout) = &requests.start else { return device };
    match addresses(layout, device.total_bytes()) {
        Some(taken) => device.beyond(taken),
        None => device,
    }
}

/// Returns the lowest and the highest address of a layout; `None` if it is empty.
fn addresses(layout: &Layout, total_bytes: u64) -> Option<Range<Address>> {
    let segments = layout.segments.iter().map(|segment| (segment.address, segment.size_bytes));
    let ranges = layout.ranges.iter().map(|range| (range.base, range.bytes(total_bytes)));
    let ends = segments.chain(ranges).map(|(start, bytes)| (start, start.saturating_add(bytes)));
    ends.reduce(|(low, high), (start, end)| (low.min(start), high.max(end))).map(|(low, high)| low..high)
}
