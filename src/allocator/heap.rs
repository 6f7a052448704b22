//! The heap: the state under the allocator's lock, and how it serves a request (`docs/caching-allocator.md` 3).
#![forbid(unsafe_code)]

use std::{collections::VecDeque, sync::Arc};

use rustc_hash::FxHashMap;

use super::{
    block::{Block, Blocks},
    ids::{BlockId, PoolIndex},
    pool::Pools,
    private_pools::{PoolOptions, PrivatePools},
    settings::Settings,
    size,
    stream_table::{StreamKey, StreamTable},
    supply::Supply,
    tally::Tallies,
};
use crate::{
    device::{Device, Mark},
    error::{Error, OutOfMemory, Result},
    event::{Action, Address, DeviceId, Event, PoolId, StackId, StreamId},
    inventory::PoolKind,
    recorder::Track,
    torch,
};

/// One device's blocks, pools and statistics. All its methods run under one lock.
#[derive(Debug)]
pub(super) struct Heap {
    pub(super) settings: Settings,
    pub(super) track: Track,
    pub(super) supply: Supply,
    pub(super) blocks: Blocks,
    pub(super) pools: Pools,
    pub(super) stats: Tallies,
    /// Frees that wait for other streams: the marks of each stream, the oldest first.
    pub(super) waiting: StreamTable<VecDeque<(Mark, BlockId)>>,
    pub(super) private: PrivatePools,
    /// Frees deferred while requests are routed to a private pool.
    pub(super) deferred: Vec<BlockId>,
    /// Streams recorded on blocks while requests are routed to a private pool.
    pub(super) uses_while_routing: FxHashMap<BlockId, Vec<StreamKey>>,
    /// Blocks without a handle, which callers free by address.
    pub(super) raw: FxHashMap<Address, BlockId>,
}

/// The default pools, by their numbers in [`Heap::pools`].
pub(super) const SMALL: PoolIndex = PoolIndex(0);
pub(super) const LARGE: PoolIndex = PoolIndex(1);

/// A request with its derived values.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request {
    pub(super) requested_bytes: u64,
    pub(super) rounded_bytes: u64,
    pub(super) stream: StreamId,
    pub(super) pool: PoolIndex,
    /// Whether new memory for the request is mapped in an expandable segment.
    pub(super) is_expandable: bool,
    pub(super) stack: StackId,
}

/// The block that a request got.
#[derive(Clone, Copy, Debug)]
pub(super) struct Grant {
    pub(super) id: BlockId,
    pub(super) address: Address,
    pub(super) bytes: u64,
}

impl Request {
    /// Returns the size of the segment that the request takes from the device, in bytes.
    fn segment_bytes(&self, settings: &Settings) -> u64 {
        size::segment_bytes(self.rounded_bytes, settings)
    }

    /// Returns true if a block that is `remaining_bytes` larger than the request is split.
    #[inline]
    fn splits(&self, remaining_bytes: u64, settings: &Settings) -> bool {
        let Request { rounded_bytes, pool, is_expandable, .. } = *self;
        size::splits(pool.kind(), is_expandable, rounded_bytes, remaining_bytes, settings)
    }
}

impl Heap {
    pub(super) fn new(device: Arc<dyn Device>, track: Track, settings: Settings) -> Heap {
        let mut supply = Supply::new(device);
        let mut pools = Pools::default();
        pools.add(PoolId::DEFAULT, false);
        supply.set_allowed_fraction(settings.per_process_memory_fraction);
        Heap {
            stats: Tallies::new(settings.max_split_bytes),
            settings,
            track,
            supply,
            blocks: Blocks::default(),
            pools,
            waiting: StreamTable::default(),
            private: PrivatePools::default(),
            deferred: Vec::new(),
            uses_while_routing: FxHashMap::default(),
            raw: FxHashMap::default(),
        }
    }

    /// Serves a request from a free block, from new memory, or from new memory
    /// after all cached memory was given back (`docs/caching-allocator.md` 3).
    #[inline]
    pub(super) fn malloc(&mut self, requested_bytes: u64, stream: StreamId, stack: StackId) -> Result<Grant> {
        if !self.private.is_routing() {
            self.complete_passed(stack)?;
        }
        let request = self.request(requested_bytes, stream, stack);
        let (id, request) = match self.take_best_fit(&request) {
            Some(id) => (id, request),
            None => self.find_more(request)?,
        };
        Ok(self.hand_out(id, &request))
    }

    /// Finds memory when no free block serves the request. The returned request names the pool of the block.
    #[inline(never)]
    fn find_more(&mut self, request: Request) -> Result<(BlockId, Request)> {
        self.collect_garbage(request.stack);
        if let Some(id) = self.grow(&request)? {
            return Ok((id, request));
        }
        if let Some(found) = self.take_from_fallback(&request) {
            return Ok(found);
        }
        match self.release_and_retry(&request)? {
            Some(id) => Ok((id, request)),
            None => Err(self.out_of_memory(&request)),
        }
    }

    #[inline]
    fn request(&mut self, requested_bytes: u64, stream: StreamId, stack: StackId) -> Request {
        let rounded_bytes = size::round(requested_bytes, &self.settings);
        let default = match torch::pool_kind(rounded_bytes) {
            PoolKind::Small => SMALL,
            PoolKind::Large => LARGE,
        };
        let private = self.private.route(stream).and_then(|id| self.private.get(id));
        let pool = private.map_or(default, |private| private.pools[usize::from(default == LARGE)]);
        let is_expandable = self.settings.expandable_segments;
        Request { requested_bytes, rounded_bytes, stream, pool, is_expandable, stack }
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
        let Some(address) = self.supply.take(bytes)? else { return Ok(None) };
        let kind = request.pool.kind();
        self.stats.segment.add(kind, 1);
        self.stats.reserved_bytes.add(kind, bytes);
        if self.settings.is_oversize(bytes) {
            self.stats.oversize_segments.change(1);
        }
        self.stats.num_device_alloc += 1;
        let block = Block::segment(address, bytes, request.stream, request.pool, request.stack);
        let id = self.blocks.insert(block);
        self.record(Action::SegmentAlloc, id, bytes, request.stack);
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

    /// Gives oversize blocks back and tries again, then all cached memory.
    fn release_and_retry(&mut self, request: &Request) -> Result<Option<BlockId>> {
        if self.release_available(request)
            && let Some(id) = self.grow(request)?
        {
            return Ok(Some(id));
        }
        if self.private.is_routing() {
            return Ok(None);
        }
        self.release_cached(PoolId::DEFAULT, request.stack)?;
        self.stats.num_alloc_retries += 1;
        self.grow(request)
    }

    /// Splits a block to size and marks it as allocated.
    #[inline]
    fn hand_out(&mut self, mut id: BlockId, request: &Request) -> Grant {
        let (pool, kind) = (&self.pools[request.pool], request.pool.kind());
        let (pool_id, may_split) = (pool.id, !pool.never_splits);
        let mut block = &mut self.blocks[id];
        let remaining_bytes = block.bytes - request.rounded_bytes;
        if may_split && request.splits(remaining_bytes, &self.settings) {
            id = self.split(id, request);
            block = &mut self.blocks[id];
        } else if block.is_split() && block.range.is_none() {
            self.stats.inactive_split.subtract(kind, 1);
            self.stats.inactive_split_bytes.subtract(kind, block.bytes);
        }
        block.is_allocated = true;
        block.requested_bytes = request.requested_bytes;
        block.stack = request.stack;
        let (address, bytes) = (block.address, block.bytes);
        self.track.record(block.event(Action::Alloc, pool_id, request.stack));
        self.stats.allocation.add(kind, 1);
        self.stats.allocated_bytes.add(kind, bytes);
        self.stats.active.add(kind, 1);
        self.stats.active_bytes.add(kind, bytes);
        self.stats.requested_bytes.add(kind, request.requested_bytes);
        if self.settings.is_oversize(bytes) {
            self.stats.oversize_allocations.change(1);
        }
        Grant { id, address, bytes }
    }

    /// Splits a block: the front serves the request, the rest goes back to its pool.
    #[inline(always)]
    fn split(&mut self, id: BlockId, request: &Request) -> BlockId {
        let was_split = self.blocks[id].is_split();
        let front = self.blocks.split(id, request.rounded_bytes);
        let rest = &mut self.blocks[id];
        let kind = request.pool.kind();
        self.pools[request.pool].insert(id, rest);
        if rest.range.is_some() {
            return front;
        }
        if was_split {
            self.stats.inactive_split_bytes.subtract(kind, request.rounded_bytes);
        } else {
            self.stats.inactive_split.add(kind, 1);
            self.stats.inactive_split_bytes.add(kind, rest.bytes);
        }
        front
    }

    /// Creates a private pool with one reference.
    pub(super) fn create_pool(&mut self, is_capture: bool, options: PoolOptions) -> PoolId {
        let id = self.private.next_id(is_capture);
        let pools = self.pools.add(id, options.no_split);
        self.private.insert(id, options, pools);
        id
    }

    /// Creates a private pool with an id that the caller chooses.
    pub(super) fn create_pool_as(&mut self, id: PoolId, options: PoolOptions) -> Result<()> {
        self.private.take_id(id)?;
        let pools = self.pools.add(id, options.no_split);
        self.private.insert(id, options, pools);
        Ok(())
    }

    /// Changes the number of device allocations of a private pool.
    pub(super) fn count_device_alloc(&mut self, pool: PoolIndex, by: i64) {
        let id = self.pools[pool].id;
        self.private.count_device_alloc(id, by);
    }

    /// Returns the bytes in free blocks of private pools, which the default pools cannot use.
    fn private_pool_bytes(&self) -> u64 {
        let private = self.pools.iter().filter(|pool| pool.id != PoolId::DEFAULT);
        private.flat_map(|pool| pool.iter().map(|id| self.blocks[id].bytes)).sum()
    }

    /// Records and counts a failed request, and makes its error (`docs/caching-allocator.md` 3.5).
    fn out_of_memory(&mut self, request: &Request) -> Error {
        let device = self.supply.device();
        let figures = OutOfMemory {
            device: self.track.device(),
            requested_bytes: request.requested_bytes,
            rounded_bytes: request.rounded_bytes,
            segment_bytes: request.segment_bytes(&self.settings),
            stream: request.stream,
            device_total_bytes: device.total_bytes(),
            device_free_bytes: device.free_bytes(),
            allowed_bytes: self.supply.allowed_bytes(),
            allocated_bytes: self.stats.allocated_bytes.current().cast_unsigned(),
            reserved_bytes: self.supply.reserved_bytes(),
            private_pool_bytes: self.private_pool_bytes(),
            snapshot: None,
            snapshot_failure: None,
            kept_snapshot: None,
        };
        self.track.record(Event {
            action: Action::Oom,
            address: Address(figures.device_free_bytes),
            size_bytes: request.rounded_bytes,
            stream: request.stream,
            pool: self.pools[request.pool].id,
            stack: request.stack,
        });
        self.stats.num_ooms += 1;
        Error::from_out_of_memory(figures)
    }

    /// Records an event of a block.
    pub(super) fn record(&self, action: Action, id: BlockId, size_bytes: u64, stack: StackId) {
        let Block { address, stream, pool, .. } = self.blocks[id];
        self.record_at(action, address, size_bytes, stream, pool, stack);
    }

    pub(super) fn record_at(
        &self,
        action: Action,
        address: Address,
        size_bytes: u64,
        stream: StreamId,
        pool: PoolIndex,
        stack: StackId,
    ) {
        let pool = self.pools[pool].id;
        self.track.record(Event { action, address, size_bytes, stream, pool, stack });
    }

    /// Returns the key of a stream in the table of waiting frees.
    pub(super) fn stream_key(&self, stream: StreamId) -> StreamKey {
        let device: DeviceId = self.track.device();
        StreamKey::new(device, stream, self.supply.device().stream_number(stream))
    }
}
