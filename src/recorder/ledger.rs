//! The inventory of an allocator that keeps none.

use std::{collections::BTreeMap, sync::PoisonError};

use super::Track;
use crate::{
    event::{Action, Address, DeviceId, Event, PoolId, StackId, StreamId},
    inventory::{BlockState, Inventory, InventoryBlock, InventorySegment, PoolKind},
    sync::{Mutex, MutexGuard},
};

/// Records for an allocator that is not memreel's, from its reports.
///
/// Report segments, allocations and frees as they happen; frees before the
/// memory can be handed out again. An allocation outside every reported
/// segment is taken as a segment of its own. A report that contradicts what is
/// known (a free of an unknown address, an allocation over a live one) is not
/// recorded, because viewers fail on such traces; it is counted instead.
///
/// A ledger allocates on the host heap while it holds its lock, so it cannot
/// stand inside the process's own `GlobalAlloc`.
#[derive(Debug)]
pub struct Ledger {
    track: Track,
    books: Mutex<Books>,
}

#[derive(Debug, Default)]
struct Books {
    segments: BTreeMap<u64, Held>,
    blocks: BTreeMap<u64, Live>,
    n_contradictions: u64,
}

/// A segment the allocator holds.
#[derive(Clone, Copy, Debug)]
struct Held {
    bytes: u64,
    stream: StreamId,
    stack: StackId,
    /// Made for one allocation, and gone with it.
    is_implied: bool,
}

/// A block in use.
#[derive(Clone, Copy, Debug)]
struct Live {
    bytes: u64,
    stream: StreamId,
    stack: StackId,
    is_pending: bool,
}

impl Ledger {
    pub(super) fn new(track: Track) -> Ledger {
        Ledger { track, books: Mutex::default() }
    }

    /// The allocator got a segment.
    pub fn segment_alloc(&self, address: Address, bytes: u64, stream: StreamId) {
        let stack = self.track.stack_of_segment();
        let mut books = self.books();
        if is_nowhere(address, bytes) || books.segment_overlaps(address.0, bytes) {
            return books.n_contradictions += 1;
        }
        self.enter_segment(&mut books, address, Held { bytes, stream, stack, is_implied: false });
    }

    /// The allocator gives a segment back; nothing in it may be live.
    pub fn segment_free(&self, address: Address) {
        let stack = self.track.stack_of_free(StackId::NONE);
        let mut books = self.books();
        let Some(held) = books.segments.get(&address.0).copied() else { return books.n_contradictions += 1 };
        if books.blocks.range(address.0..address.0.saturating_add(held.bytes)).next().is_some() {
            return books.n_contradictions += 1;
        }
        self.leave_segment(&mut books, address, stack);
    }

    /// The allocator handed out a block of that many requested bytes.
    pub fn alloc(&self, address: Address, bytes: u64, stream: StreamId) {
        let stack = self.track.stack_of_alloc(bytes);
        let mut books = self.books();
        if is_nowhere(address, bytes) || books.block_overlaps(address.0, bytes) {
            return books.n_contradictions += 1;
        }
        if !books.lies_in_a_segment(address.0, bytes) {
            if books.segment_overlaps(address.0, bytes) {
                return books.n_contradictions += 1;
            }
            self.enter_segment(&mut books, address, Held { bytes, stream, stack, is_implied: true });
        }
        books.blocks.insert(address.0, Live { bytes, stream, stack, is_pending: false });
        self.record(Action::Alloc, address, bytes, stream, stack);
    }

    /// The program gave a block back, and nothing uses it any more.
    pub fn free(&self, address: Address) {
        let stack = self.track.stack_of_free(StackId::NONE);
        let mut books = self.books();
        if self.request_free(&mut books, address, stack) {
            self.complete_free(&mut books, address, stack);
        }
    }

    /// The program gave a block back; a stream may still use it.
    pub fn free_requested(&self, address: Address) {
        let stack = self.track.stack_of_free(StackId::NONE);
        self.request_free(&mut self.books(), address, stack);
    }

    /// No stream uses the block any more.
    pub fn free_completed(&self, address: Address) {
        let stack = self.track.stack_of_free(StackId::NONE);
        let mut books = self.books();
        match books.blocks.get(&address.0) {
            Some(live) if live.is_pending => self.complete_free(&mut books, address, stack),
            _ => books.n_contradictions += 1,
        }
    }

    /// A request failed while the device had `device_free_bytes` left.
    pub fn oom(&self, bytes: u64, device_free_bytes: u64, stream: StreamId) {
        let stack = self.track.stack_of_segment();
        let _books = self.books();
        self.record(Action::Oom, Address(device_free_bytes), bytes, stream, stack);
    }

    /// How many reports contradicted what was known.
    #[must_use]
    pub fn n_contradictions(&self) -> u64 {
        self.books().n_contradictions
    }

    fn request_free(&self, books: &mut Books, address: Address, stack: StackId) -> bool {
        match books.blocks.get_mut(&address.0) {
            Some(live) if !live.is_pending => {
                live.is_pending = true;
                let live = *live;
                self.record(
                    Action::FreeRequested,
                    address,
                    live.bytes,
                    live.stream,
                    stack.of_free(live.stack),
                );
                true
            }
            _ => {
                books.n_contradictions += 1;
                false
            }
        }
    }

    fn complete_free(&self, books: &mut Books, address: Address, stack: StackId) {
        let Some(live) = books.blocks.remove(&address.0) else { return };
        self.record(Action::FreeCompleted, address, live.bytes, live.stream, stack.of_free(live.stack));
        if books.segments.get(&address.0).is_some_and(|held| held.is_implied) {
            self.leave_segment(books, address, stack);
        }
    }

    fn enter_segment(&self, books: &mut Books, address: Address, held: Held) {
        books.segments.insert(address.0, held);
        self.record(Action::SegmentAlloc, address, held.bytes, held.stream, held.stack);
    }

    fn leave_segment(&self, books: &mut Books, address: Address, stack: StackId) {
        let Some(held) = books.segments.remove(&address.0) else { return };
        self.record(Action::SegmentFree, address, held.bytes, held.stream, stack.or(held.stack));
    }

    fn record(&self, action: Action, address: Address, size_bytes: u64, stream: StreamId, stack: StackId) {
        self.track.record(Event { action, address, size_bytes, stream, pool: PoolId::DEFAULT, stack });
    }

    fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Books {
    fn segment_overlaps(&self, start: u64, bytes: u64) -> bool {
        let last = self.segments.range(..start.saturating_add(bytes)).next_back();
        last.is_some_and(|(at, held)| at.saturating_add(held.bytes) > start)
    }

    fn block_overlaps(&self, start: u64, bytes: u64) -> bool {
        let last = self.blocks.range(..start.saturating_add(bytes)).next_back();
        last.is_some_and(|(at, live)| at.saturating_add(live.bytes) > start)
    }

    fn lies_in_a_segment(&self, start: u64, bytes: u64) -> bool {
        let last = self.segments.range(..=start).next_back();
        last.is_some_and(|(at, held)| at.saturating_add(held.bytes) >= start.saturating_add(bytes))
    }

    /// A segment as blocks without gaps: the live ones, and what lies between.
    fn segment(&self, start: u64, held: Held) -> InventorySegment {
        let end = start + held.bytes;
        let mut blocks = Vec::new();
        let mut at = start;
        for (address, live) in self.blocks.range(start..end) {
            push_gap(&mut blocks, at, *address);
            blocks.push(InventoryBlock {
                address: Address(*address),
                size_bytes: live.bytes,
                requested_bytes: live.bytes,
                state: if live.is_pending {
                    BlockState::ActivePendingFree
                } else {
                    BlockState::ActiveAllocated
                },
                stack: live.stack,
            });
            at = address + live.bytes;
        }
        push_gap(&mut blocks, at, end);
        let kind = if held.bytes <= 2 << 20 { PoolKind::Small } else { PoolKind::Large };
        InventorySegment {
            address: Address(start),
            size_bytes: held.bytes,
            stream: held.stream,
            kind,
            pool: PoolId::DEFAULT,
            is_expandable: false,
            stack: held.stack,
            blocks,
        }
    }
}

/// Whether a range is empty or leaves the address space.
fn is_nowhere(address: Address, bytes: u64) -> bool {
    bytes == 0 || address.0.checked_add(bytes).is_none()
}

fn push_gap(blocks: &mut Vec<InventoryBlock>, from: u64, to: u64) {
    if to > from {
        let (address, bytes) = (Address(from), to - from);
        let state = BlockState::Inactive;
        blocks.push(InventoryBlock {
            address,
            size_bytes: bytes,
            requested_bytes: 0,
            state,
            stack: StackId::NONE,
        });
    }
}

impl Inventory for Ledger {
    fn device(&self) -> DeviceId {
        self.track.device()
    }

    fn inspect(&self, look: &mut dyn FnMut(&[InventorySegment])) {
        let books = self.books();
        let segments: Vec<_> =
            books.segments.iter().map(|(start, held)| books.segment(*start, *held)).collect();
        look(&segments);
    }
}
