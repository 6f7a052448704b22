//! The state under the allocator's lock, and the steps of a request (`docs/caching-allocator.md` 3).
#![forbid(unsafe_code)]

use std::{collections::VecDeque, sync::Arc};

use rustc_hash::FxHashMap;

use super::{
    block::{Block, Blocks},
    ids::{BlockId, PoolIndex},
    pool::Pools,
    private_pools::{Owner, PoolOptions, PrivatePools},
    settings::Settings,
    size,
    stream_table::{StreamKey, StreamTable},
    supply::Supply,
    tally::Tallies,
};
use crate::{
    device::{Device, Mark},
    recorder::Track,
};
use memreel_snapshot::words::{
    Action, Address, DeviceId, Event, PoolId, PoolKind, Result, StackId, StreamId, torch,
};

/// One device's blocks, pools and statistics. All its methods run under one lock; those that call the device
/// for memory, or wait for it, are methods of [`Growth`](super::growth::Growth).
#[derive(Debug)]
pub(super) struct Core {
    pub(super) settings: Settings,
    pub(super) track: Track,
    pub(super) supply: Supply,
    pub(super) blocks: Blocks,
    pub(super) pools: Pools,
    pub(super) stats: Tallies,
    /// Pending frees by the stream that they wait for, with their marks, oldest first.
    pub(super) waiting: StreamTable<VecDeque<(Mark, BlockId)>>,
    /// Whether requests ignore pending frees because [`Core::complete_stream`] is called for each stream.
    pub(super) completes_by_stream: bool,
    pub(super) private: PrivatePools,
    /// Frees deferred while requests are routed to a private pool.
    pub(super) deferred: Vec<BlockId>,
    /// Streams recorded on blocks while requests are routed to a private pool.
    pub(super) uses_while_routing: FxHashMap<BlockId, Vec<StreamKey>>,
    /// A mark that a thread waits for with the core unlocked; that thread forgets it afterwards.
    pub(super) awaited: Option<Mark>,
    /// Blocks without a handle, which callers free by address.
    pub(super) raw: FxHashMap<Address, BlockId>,
}

/// The default pools, as numbers in [`Core::pools`].
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
    /// The stack for events of segments and of a failure, which are recorded for filtered requests too.
    pub(super) growth_stack: StackId,
}

/// The block that a request got, with its pool.
#[derive(Clone, Copy, Debug)]
pub(super) struct Grant {
    pub(super) id: BlockId,
    pub(super) address: Address,
    pub(super) bytes: u64,
}

impl Request {
    /// Returns the size of the segment that the request takes from the device, in bytes.
    pub(super) fn segment_bytes(&self, settings: &Settings) -> u64 {
        size::segment_bytes(self.rounded_bytes, settings)
    }

    /// Returns true if a block that is `remaining_bytes` larger than the request is split.
    #[inline]
    fn splits(&self, remaining_bytes: u64, settings: &Settings) -> bool {
        let Request { rounded_bytes, pool, is_expandable, .. } = *self;
        size::splits(pool.kind(), is_expandable, rounded_bytes, remaining_bytes, settings)
    }
}

impl Core {
    pub(super) fn new(device: Arc<dyn Device>, track: Track, settings: Settings) -> Core {
        let mut supply = Supply::new(device);
        let mut pools = Pools::default();
        pools.add(PoolId::DEFAULT, false);
        supply.set_allowed_fraction(settings.per_process_memory_fraction);
        Core {
            stats: Tallies::new(settings.max_split_bytes),
            settings,
            track,
            supply,
            blocks: Blocks::default(),
            pools,
            waiting: StreamTable::default(),
            completes_by_stream: false,
            private: PrivatePools::default(),
            deferred: Vec::new(),
            uses_while_routing: FxHashMap::default(),
            awaited: None,
            raw: FxHashMap::default(),
        }
    }

    /// Completes the frees that must be complete before a request searches.
    #[inline]
    pub(super) fn complete_before(&mut self, stack: StackId) -> Result<()> {
        if self.private.is_routing() { Ok(()) } else { self.complete_passed(stack) }
    }

    /// Determines the rounded size and the pool of a request, and how it takes memory.
    #[inline]
    pub(super) fn request(&mut self, requested_bytes: u64, stream: StreamId, stack: StackId) -> Request {
        let rounded_bytes = size::round(requested_bytes, &self.settings);
        let default = match torch::pool_kind(rounded_bytes) {
            PoolKind::Small => SMALL,
            PoolKind::Large => LARGE,
        };
        let private = self.private.route(stream).and_then(|id| self.private.get(id));
        let pool = private.map_or(default, |private| private.pools[usize::from(default == LARGE)]);
        let is_expandable = self.settings.expandable_segments;
        Request { requested_bytes, rounded_bytes, stream, pool, is_expandable, stack, growth_stack: stack }
    }

    /// Splits a block to size and marks it as allocated.
    #[inline]
    pub(super) fn hand_out(&mut self, mut id: BlockId, request: &Request) -> Grant {
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

    /// Splits a block: the front is for the request, the rest returns to its pool.
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
    pub(super) fn create_pool(&mut self, is_capture: bool, owner: Owner, options: PoolOptions) -> PoolId {
        let id = self.private.next_id(is_capture);
        let pools = self.pools.add(id, options.no_split);
        self.private.insert(id, owner, options, pools);
        id
    }

    /// Creates a private pool with an id that the caller chooses.
    pub(super) fn create_pool_as(&mut self, id: PoolId, options: PoolOptions) -> Result<()> {
        self.private.take_id(id)?;
        let pools = self.pools.add(id, options.no_split);
        self.private.insert(id, Owner::Program, options, pools);
        Ok(())
    }

    /// Changes the number of device allocations of a private pool.
    pub(super) fn count_device_alloc(&mut self, pool: PoolIndex, by: i64) {
        let id = self.pools[pool].id;
        self.private.count_device_alloc(id, by);
    }

    /// Returns the bytes in free blocks of private pools, which the default pools cannot use.
    pub(super) fn private_pool_bytes(&self) -> u64 {
        let private = self.pools.iter().filter(|pool| pool.id != PoolId::DEFAULT);
        private.flat_map(|pool| pool.iter().map(|id| self.blocks[id].bytes)).sum()
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
