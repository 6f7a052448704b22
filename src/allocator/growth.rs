//! Growth: the core, locked by the one thread that takes memory from the device or returns it.
//!
//! The holder of the turn ([`turn`]) has both locks, and the turn is held during the whole search for new memory, and while
//! cached memory is given back. During a call of the device ([`Growth::unlocked`]) the core is valid and agrees with the
//! recorded events. Other threads may take free blocks and complete frees, so afterwards every number of a free block is stale.
//! Only the holder of the turn erases pools, changes the unmapped pieces of reserved ranges, and gives back what
//! [`Supply`](super::supply::Supply) has released.
#![forbid(unsafe_code)]

use std::{
    ops::{Deref, DerefMut},
    sync::MutexGuard,
};

use super::{
    block::Block,
    core::{Core, LARGE, Request, SMALL},
    ids::BlockId,
    tally::Tally,
};
use crate::device::{Device, Mark};
use memreel_lockfree::turn::{self, Turn};
use memreel_snapshot::words::{Action, Address, Error, Event, OutOfMemory, PoolId, Result};

/// The core, locked by the thread that has the turn to call the device.
pub(super) struct Growth<'a> {
    held: turn::Growth<'a, Core>,
    device: &'a dyn Device,
}

impl turn::Core for Core {
    /// Every alloc and every completed free of another thread changes this tally.
    type Version = Tally;
    type Mark = Mark;

    fn version(&self) -> Tally {
        self.stats.active
    }

    fn awaited(&mut self) -> &mut Option<Mark> {
        &mut self.awaited
    }
}

impl Deref for Growth<'_> {
    type Target = Core;

    fn deref(&self) -> &Core {
        &self.held
    }
}

impl DerefMut for Growth<'_> {
    fn deref_mut(&mut self) -> &mut Core {
        &mut self.held
    }
}

impl<'a> Growth<'a> {
    /// Waits for the turn, then for the core's lock. The caller holds neither.
    pub(super) fn new(turn: &'a Turn<Core>, device: &'a dyn Device) -> Growth<'a> {
        let mut growth = Growth { held: turn.grow(), device };
        // Memory is left over only if the device panicked.
        growth.give_back();
        growth
    }

    /// Passes the turn on and returns the core, still locked.
    pub(super) fn into_core(self) -> MutexGuard<'a, Core> {
        self.held.into_core()
    }

    /// Releases the core's lock for a call of the device.
    pub(super) fn unlocked<T>(&mut self, call: impl FnOnce(&dyn Device) -> T) -> T {
        self.held.unlocked(|| call(self.device))
    }

    /// Returns the memory that the core has released to the device.
    pub(super) fn give_back(&mut self) {
        while let Some(memory) = self.supply.next_return() {
            self.unlocked(|device| memory.give_to(device));
        }
    }

    /// Waits until a stream has passed a mark. Other threads do not forget the mark meanwhile.
    pub(super) fn wait(&mut self, mark: Mark) -> Result<()> {
        self.held.wait(mark, || self.device.wait(mark))
    }

    /// Finds memory for a request that no free block satisfied. The returned request names the pool of the block.
    pub(super) fn find_more(&mut self, mut request: Request) -> Result<(BlockId, Request)> {
        if let Some(id) = self.search_again(&request) {
            return Ok((id, request));
        }
        self.collect_garbage(request.growth_stack);
        self.give_back();
        if let Some(id) = self.grow(&request)? {
            return Ok((id, request));
        }
        if let Some(id) = self.search_again(&request) {
            return Ok((id, request));
        }
        if let Some(found) = self.take_from_fallback(&request) {
            return Ok(found);
        }
        if let Some(id) = self.release_and_retry(&mut request)? {
            return Ok((id, request));
        }
        let free_bytes = self.unlocked(|device| device.free_bytes());
        match self.search_again(&request) {
            Some(id) => Ok((id, request)),
            None => Err(self.out_of_memory(&request, free_bytes)),
        }
    }

    /// Recomputes a request if its private pool, which was `pool`, has ended.
    pub(super) fn renew(&mut self, request: &mut Request, pool: PoolId) {
        if self.pools[request.pool].id != pool {
            let growth_stack = request.growth_stack;
            let renewed = self.request(request.requested_bytes, request.stream, request.stack);
            *request = Request { growth_stack, ..renewed };
        }
    }

    /// Searches the free blocks again if another thread may have changed them. A single-threaded program makes no
    /// second search, because PyTorch makes none after it has released its cache.
    fn search_again(&mut self, request: &Request) -> Option<BlockId> {
        if self.held.take_stale() { self.search(request) } else { None }
    }

    /// Takes new memory for a request, as one block that is not in a pool;
    /// `None` when the limit is reached or the device is full.
    fn grow(&mut self, request: &Request) -> Result<Option<BlockId>> {
        // Even with expandable segments, the limit is checked for a whole
        // segment, however many pages will be mapped (`docs/caching-allocator.md` 2.7).
        if !self.supply.allows(request.segment_bytes(&self.settings)) {
            return Ok(None);
        }
        let block =
            if request.is_expandable { self.grow_expandable(request)? } else { self.grow_segment(request)? };
        if block.is_some() {
            self.count_device_alloc(request.pool, 1);
        }
        Ok(block)
    }

    fn grow_segment(&mut self, request: &Request) -> Result<Option<BlockId>> {
        let bytes = request.segment_bytes(&self.settings);
        let Some(address) = self.unlocked(|device| device.segment_alloc(bytes))? else { return Ok(None) };
        let kind = request.pool.kind();
        self.supply.count_taken(bytes);
        self.stats.segment.add(kind, 1);
        self.stats.reserved_bytes.add(kind, bytes);
        if self.settings.is_oversize(bytes) {
            self.stats.oversize_segments.change(1);
        }
        self.stats.num_device_alloc += 1;
        let block = Block::segment(address, bytes, request.stream, request.pool, request.growth_stack);
        let id = self.blocks.insert(block);
        self.record(Action::SegmentAlloc, id, bytes, request.growth_stack);
        Ok(Some(id))
    }

    /// Takes a free block of a private pool with `use_on_oom`. Only requests of
    /// the default pools can use it.
    fn take_from_fallback(&mut self, request: &Request) -> Option<(BlockId, Request)> {
        if request.pool != SMALL && request.pool != LARGE {
            return None;
        }
        self.private.fallbacks().into_iter().find_map(|id| {
            let pool = self.private.get(id)?.pools[usize::from(request.pool == LARGE)];
            let borrowed = Request { pool, is_expandable: false, ..*request };
            Some((self.take_best_fit(&borrowed)?, borrowed))
        })
    }

    /// Releases oversize blocks and tries again, then all cached memory.
    fn release_and_retry(&mut self, request: &mut Request) -> Result<Option<BlockId>> {
        let is_enough = self.release_available(request);
        self.give_back();
        if is_enough && let Some(id) = self.grow(request)? {
            return Ok(Some(id));
        }
        if self.private.is_routing() {
            return Ok(None);
        }
        let pool = self.pools[request.pool].id;
        self.release_cached(PoolId::DEFAULT, request.growth_stack)?;
        self.stats.num_alloc_retries += 1;
        self.renew(request, pool);
        self.grow(request)
    }

    /// Records and counts a failed request, and returns its error (`docs/caching-allocator.md` 3.5).
    fn out_of_memory(&mut self, request: &Request, device_free_bytes: u64) -> Error {
        let mut figures = OutOfMemory::new(self.track.device());
        figures.requested_bytes = request.requested_bytes;
        figures.rounded_bytes = request.rounded_bytes;
        figures.segment_bytes = request.segment_bytes(&self.settings);
        figures.stream = request.stream;
        figures.device_total_bytes = self.device.total_bytes();
        figures.device_free_bytes = device_free_bytes;
        figures.allowed_bytes = self.supply.allowed_bytes();
        figures.allocated_bytes = self.stats.allocated_bytes.current().cast_unsigned();
        figures.reserved_bytes = self.supply.reserved_bytes();
        figures.private_pool_bytes = self.private_pool_bytes();
        self.track.record(Event {
            action: Action::Oom,
            address: Address(figures.device_free_bytes),
            size_bytes: request.rounded_bytes,
            stream: request.stream,
            pool: self.pools[request.pool].id,
            stack: request.growth_stack,
        });
        self.stats.num_ooms += 1;
        Error::from_out_of_memory(figures)
    }
}
