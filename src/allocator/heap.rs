//! What the allocator's lock protects, and how a request becomes a block (caching-allocator.md 3).

use std::{collections::VecDeque, sync::Arc};

use super::{
    block::{Block, BlockId, Blocks},
    pool::{Pool, PoolIndex},
    segments::Segments,
    size,
    stats::{Stats, signed},
    stream_table::{StreamKey, StreamTable},
};
use crate::{
    device::{Device, Mark},
    error::{Error, OutOfMemory, Result},
    event::{Action, Address, DeviceId, Event, PoolId, StackId, StreamId},
    inventory::PoolKind,
    recorder::Track,
};

/// One device's blocks, pools and statistics. All its methods run under one lock.
#[derive(Debug)]
pub(super) struct Heap {
    pub(super) track: Track,
    pub(super) segments: Segments,
    pub(super) blocks: Blocks,
    pub(super) pools: Vec<Pool>,
    pub(super) stats: Stats,
    /// Frees that wait for other streams: for each stream its marks, first come first passed.
    pub(super) waiting: StreamTable<VecDeque<(Mark, BlockId)>>,
}

/// The default pools, by their place in [`Heap::pools`].
const SMALL: PoolIndex = PoolIndex(0);
const LARGE: PoolIndex = PoolIndex(1);

/// A request with everything derived from it.
#[derive(Clone, Copy, Debug)]
struct Request {
    requested_bytes: u64,
    rounded_bytes: u64,
    segment_bytes: u64,
    stream: StreamId,
    pool: PoolIndex,
    stack: StackId,
}

impl Heap {
    pub(super) fn new(device: Arc<dyn Device>, track: Track) -> Heap {
        Heap {
            track,
            segments: Segments::new(device),
            blocks: Blocks::default(),
            pools: vec![
                Pool::new(PoolKind::Small, PoolId::default()),
                Pool::new(PoolKind::Large, PoolId::default()),
            ],
            stats: Stats::new(),
            waiting: StreamTable::default(),
        }
    }

    /// Serves a request, whatever it takes: a free block, a new segment, or
    /// everything cached given back first.
    pub(super) fn malloc(
        &mut self,
        requested_bytes: u64,
        stream: StreamId,
        stack: StackId,
    ) -> Result<BlockId> {
        self.complete_passed(stack)?;
        let request = self.request(requested_bytes, stream, stack);
        let found = match self.take_best_fit(&request) {
            Some(block) => Some(block),
            None => match self.grow(&request)? {
                Some(block) => Some(block),
                None => self.release_and_retry(&request)?,
            },
        };
        match found {
            Some(block) => Ok(self.hand_out(block, &request)),
            None => Err(self.out_of_memory(&request)),
        }
    }

    fn request(&self, requested_bytes: u64, stream: StreamId, stack: StackId) -> Request {
        let rounded_bytes = size::round(requested_bytes);
        let pool = match size::pool_kind(rounded_bytes) {
            PoolKind::Small => SMALL,
            PoolKind::Large => LARGE,
        };
        let segment_bytes = size::segment_bytes(rounded_bytes);
        Request { requested_bytes, rounded_bytes, segment_bytes, stream, pool, stack }
    }

    /// The best free block, out of its pool.
    fn take_best_fit(&mut self, request: &Request) -> Option<BlockId> {
        let pool = &mut self.pools[request.pool.0];
        let id = pool.best_fit(request.stream, request.rounded_bytes)?;
        pool.remove(id, &self.blocks[id]);
        Some(id)
    }

    /// A new segment as one block, in no pool.
    fn grow(&mut self, request: &Request) -> Result<Option<BlockId>> {
        let bytes = request.segment_bytes;
        let Some(address) = self.segments.take(bytes)? else { return Ok(None) };
        let kind = self.pools[request.pool.0].kind;
        self.stats.segment.change(kind, 1);
        self.stats.reserved_bytes.change(kind, signed(bytes));
        self.stats.num_device_alloc += 1;
        let block = Block::segment(address, bytes, request.stream, request.pool, request.stack);
        let id = self.blocks.insert(block);
        self.record(Action::SegmentAlloc, id, bytes, request.stack);
        Ok(Some(id))
    }

    /// The last resort: everything cached goes back, then one more try.
    fn release_and_retry(&mut self, request: &Request) -> Result<Option<BlockId>> {
        self.release_cached(request.stack)?;
        self.stats.num_alloc_retries += 1;
        self.grow(request)
    }

    /// Cuts the block to size and gives it to the program.
    fn hand_out(&mut self, id: BlockId, request: &Request) -> BlockId {
        let kind = self.pools[request.pool.0].kind;
        let was_split = self.blocks[id].is_split();
        let remaining_bytes = self.blocks[id].bytes - request.rounded_bytes;
        let id = if size::splits(kind, remaining_bytes) {
            self.split(id, request, was_split)
        } else {
            if was_split {
                let bytes = signed(self.blocks[id].bytes);
                self.stats.inactive_split.change(kind, -1);
                self.stats.inactive_split_bytes.change(kind, -bytes);
            }
            id
        };
        let block = &mut self.blocks[id];
        block.is_allocated = true;
        block.requested_bytes = request.requested_bytes;
        block.stack = request.stack;
        let bytes = signed(block.bytes);
        self.record(Action::Alloc, id, request.requested_bytes, request.stack);
        self.stats.allocation.change(kind, 1);
        self.stats.allocated_bytes.change(kind, bytes);
        self.stats.active.change(kind, 1);
        self.stats.active_bytes.change(kind, bytes);
        self.stats.requested_bytes.change(kind, signed(request.requested_bytes));
        id
    }

    /// The front serves the request; the rest goes back to its pool.
    fn split(&mut self, id: BlockId, request: &Request, was_split: bool) -> BlockId {
        let pool = &mut self.pools[request.pool.0];
        let front = self.blocks.split(id, request.rounded_bytes);
        let rest = &self.blocks[id];
        pool.insert(id, rest);
        let kind = pool.kind;
        if was_split {
            self.stats.inactive_split_bytes.change(kind, -signed(request.rounded_bytes));
        } else {
            self.stats.inactive_split.change(kind, 1);
            self.stats.inactive_split_bytes.change(kind, signed(rest.bytes));
        }
        front
    }

    /// The request has failed: the event, the count and the figures (caching-allocator.md 3.5).
    fn out_of_memory(&mut self, request: &Request) -> Error {
        let device = self.segments.device();
        let figures = OutOfMemory {
            device: self.track.device().0,
            requested_bytes: request.requested_bytes,
            rounded_bytes: request.rounded_bytes,
            segment_bytes: request.segment_bytes,
            stream: request.stream.0,
            device_total_bytes: device.total_bytes(),
            device_free_bytes: device.free_bytes(),
            allowed_bytes: self.segments.allowed_bytes(),
            allocated_bytes: self.stats.allocated_bytes.all.current.cast_unsigned(),
            reserved_bytes: self.segments.reserved_bytes(),
            private_pool_bytes: 0,
            snapshot: None,
            snapshot_failure: None,
        };
        self.track.record(Event {
            action: Action::Oom,
            address: Address(figures.device_free_bytes),
            size_bytes: request.rounded_bytes,
            stream: request.stream,
            pool: self.pools[request.pool.0].id,
            stack: request.stack,
        });
        self.stats.num_ooms += 1;
        Error::from_out_of_memory(figures)
    }

    /// Records what happened to a block.
    pub(super) fn record(&self, action: Action, id: BlockId, size_bytes: u64, stack: StackId) {
        let Block { address, stream, pool, .. } = self.blocks[id];
        let pool = self.pools[pool.0].id;
        self.track.record(Event { action, address, size_bytes, stream, pool, stack });
    }

    /// A stream as the table of waiting frees knows it.
    pub(super) fn stream_key(&self, stream: StreamId) -> StreamKey {
        let device: DeviceId = self.track.device();
        StreamKey::new(device, stream, self.segments.device().stream_number(stream))
    }
}
