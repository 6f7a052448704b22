//! Records for an allocator that does not keep an inventory of its blocks.
#![forbid(unsafe_code)]

use std::{collections::BTreeMap, sync::Arc};

use super::{
    contradiction::{Contradiction, Reason},
    tiling::tiled,
    track::Track,
};
#[cfg(not(loom))]
use crate::fork;
use crate::{
    event::{Action, Address, DeviceId, Event, PoolId, StackId, StreamId},
    inventory::{BlockState, Inventory, InventoryBlock, InventorySegment, PoolKind},
    sync::{Mutex, MutexGuard, lock},
};

/// Records the reports of an allocator that is not memreel's, and keeps the list of its blocks for snapshots.
///
/// Report segments, allocations and frees when they happen; report a free *before* the memory can be
/// allocated again. An allocation outside all reported segments is shown as a segment of its own.
///
/// A report that contradicts earlier ones (a free of an unknown address, an allocation over a live block)
/// is not recorded, because viewers fail on such traces. The method then returns `false`,
/// [`Ledger::n_contradictions`] counts it, and [`Ledger::latest_contradiction`] has the reason. Callers that
/// cannot act on it may ignore the result.
///
/// Do not report blocks of memreel's own allocator on the same device: they would be recorded twice.
///
/// A ledger allocates on the host heap while it has its lock, so it cannot be used inside the process's own
/// `GlobalAlloc`: `Heap` records that one, and `Recorded` reports to a ledger for allocators of other kinds.
///
/// ```
/// use memreel::{Address, DeviceId, StreamId};
/// use memreel::recorder::{History, Recorder};
/// use memreel::snapshot::{Dialect, collect};
///
/// let recorder = Recorder::new();
/// recorder.record_history(&History::all());
/// let ledger = recorder.ledger(DeviceId(0));
///
/// ledger.segment_alloc(Address(0x10000), 4096, StreamId::DEFAULT);
/// ledger.alloc(Address(0x10000), 1000, StreamId::DEFAULT);
/// assert!(!ledger.free(Address(0x10200)));
/// let why = ledger.latest_contradiction().unwrap().to_string();
/// assert!(why.starts_with("no live block begins at 0x10200"), "{why}");
///
/// let snapshot = collect(&recorder, &[&ledger], Dialect::default());
/// assert_eq!(snapshot.segments.len(), 1);
/// ```
#[derive(Debug)]
pub struct Ledger {
    track: Track,
    state: Arc<Mutex<LedgerState>>,
}

/// The segments and live blocks by address.
#[derive(Debug, Default)]
struct LedgerState {
    segments: BTreeMap<u64, LedgerSegment>,
    blocks: BTreeMap<u64, LiveBlock>,
    n_contradictions: u64,
    latest_contradiction: Option<Contradiction>,
}

#[derive(Clone, Copy, Debug)]
struct LedgerSegment {
    bytes: u64,
    stream: StreamId,
    stack: StackId,
    /// Created for one allocation outside all segments, and removed with it.
    is_implied: bool,
}

#[derive(Clone, Copy, Debug)]
struct LiveBlock {
    bytes: u64,
    stream: StreamId,
    stack: StackId,
    /// Whether its free was requested and has not completed.
    is_pending: bool,
}

impl Ledger {
    pub(super) fn new(track: Track) -> Ledger {
        let state = Arc::new(Mutex::default());
        #[cfg(not(loom))]
        fork::register(fork::Level::Allocator, &state);
        Ledger { track, state }
    }

    /// Reports that the allocator got a segment of `bytes` bytes from the device.
    ///
    /// Returns whether the report was taken: `false` if the range is empty, leaves the address space, or
    /// overlaps a known segment.
    pub fn segment_alloc(&self, address: Address, bytes: u64, stream: StreamId) -> bool {
        let stack = self.track.stack_of_segment();
        let mut state = self.state();
        if let Some(reason) = invalid(address, bytes).or_else(|| state.segment_overlap(address.0, bytes)) {
            return state.refuse(address, reason);
        }
        self.add_segment(&mut state, address, LedgerSegment { bytes, stream, stack, is_implied: false });
        true
    }

    /// Reports that the allocator returns a segment to the device.
    ///
    /// Returns whether the report was taken: `false` if no segment begins at `address`, or if a block in it is
    /// live.
    pub fn segment_free(&self, address: Address) -> bool {
        let stack = self.track.stack_of_free(StackId::NONE);
        let mut state = self.state();
        let Some(segment) = state.segments.get(&address.0).copied() else {
            return state.refuse(address, Reason::NoSegment);
        };
        let mut live = state.blocks.range(address.0..address.0.saturating_add(segment.bytes));
        if let Some(block) = live.next().map(|(block, _)| Address(*block)) {
            return state.refuse(address, Reason::HasBlock { address: block });
        }
        self.remove_segment(&mut state, address, stack);
        true
    }

    /// Reports that the allocator allocated a block of `bytes` requested bytes.
    ///
    /// Returns whether the report was taken: `false` if the range is empty, leaves the address space, overlaps
    /// a live block, or is partly in a segment.
    pub fn alloc(&self, address: Address, bytes: u64, stream: StreamId) -> bool {
        let stack = self.track.stack_of_alloc(bytes);
        let mut state = self.state();
        if let Some(reason) = invalid(address, bytes).or_else(|| state.block_overlap(address.0, bytes)) {
            return state.refuse(address, reason);
        }
        if !state.is_in_a_segment(address.0, bytes) {
            if let Some(reason) = state.segment_overlap(address.0, bytes) {
                return state.refuse(address, reason);
            }
            self.add_segment(&mut state, address, LedgerSegment { bytes, stream, stack, is_implied: true });
        }
        state.blocks.insert(address.0, LiveBlock { bytes, stream, stack, is_pending: false });
        self.record(Action::Alloc, address, bytes, stream, stack);
        true
    }

    /// Reports that the program freed a block that no stream uses any more.
    ///
    /// Like [`Ledger::free_requested`] followed by [`Ledger::free_completed`]. Returns whether the report was
    /// taken: `false` if no live block begins at `address`, or if its free was requested before.
    pub fn free(&self, address: Address) -> bool {
        let stack = self.track.stack_of_free(StackId::NONE);
        let mut state = self.state();
        let is_taken = self.request_free(&mut state, address, stack);
        if is_taken {
            self.complete_free(&mut state, address, stack);
        }
        is_taken
    }

    /// Reports that the program freed a block that a stream may still use.
    ///
    /// Returns whether the report was taken: `false` if no live block begins at `address`, or if its free was
    /// requested before.
    pub fn free_requested(&self, address: Address) -> bool {
        let stack = self.track.stack_of_free(StackId::NONE);
        self.request_free(&mut self.state(), address, stack)
    }

    /// Reports that no stream uses a freed block any more.
    ///
    /// Returns whether the report was taken: `false` unless [`Ledger::free_requested`] came before.
    pub fn free_completed(&self, address: Address) -> bool {
        let stack = self.track.stack_of_free(StackId::NONE);
        let mut state = self.state();
        match state.blocks.get(&address.0) {
            Some(block) if block.is_pending => {
                self.complete_free(&mut state, address, stack);
                true
            }
            Some(_) => state.refuse(address, Reason::FreeNotRequested),
            None => state.refuse(address, Reason::NoBlock),
        }
    }

    /// Records the name of a live block, as PyTorch 2.14's `annotate` does; see [`Track::annotate`].
    ///
    /// Returns whether there is such a block: `false` if no live block begins at `address`, or if its free was
    /// requested.
    pub fn annotate(&self, address: Address, name: &str) -> bool {
        let stack = self.track.stack_of_segment();
        let mut state = self.state();
        let block = match state.blocks.get(&address.0) {
            Some(block) if !block.is_pending => *block,
            Some(_) => return state.refuse(address, Reason::FreeRequested),
            None => return state.refuse(address, Reason::NoBlock),
        };
        let stack = stack.of_free(block.stack);
        self.track.annotate(event(Action::Annotate, address, block.bytes, block.stream, stack), name);
        true
    }

    /// Reports that a request for `bytes` bytes failed while the device had `device_free_bytes` left.
    pub fn oom(&self, bytes: u64, device_free_bytes: u64, stream: StreamId) {
        let stack = self.track.stack_of_segment();
        let _state = self.state();
        self.record(Action::Oom, Address(device_free_bytes), bytes, stream, stack);
    }

    /// Returns how many reports contradicted earlier ones and were not recorded.
    #[must_use]
    pub fn n_contradictions(&self) -> u64 {
        self.state().n_contradictions
    }

    /// Returns the latest report that contradicted earlier ones, of any thread.
    #[must_use]
    pub fn latest_contradiction(&self) -> Option<Contradiction> {
        self.state().latest_contradiction
    }

    fn request_free(&self, state: &mut LedgerState, address: Address, stack: StackId) -> bool {
        match state.blocks.get_mut(&address.0) {
            Some(block) if !block.is_pending => {
                block.is_pending = true;
                let block = *block;
                let stack = stack.of_free(block.stack);
                self.record(Action::FreeRequested, address, block.bytes, block.stream, stack);
                true
            }
            Some(_) => state.refuse(address, Reason::FreeRequested),
            None => state.refuse(address, Reason::NoBlock),
        }
    }

    fn complete_free(&self, state: &mut LedgerState, address: Address, stack: StackId) {
        let Some(block) = state.blocks.remove(&address.0) else { return };
        self.record(Action::FreeCompleted, address, block.bytes, block.stream, stack.of_free(block.stack));
        if state.segments.get(&address.0).is_some_and(|segment| segment.is_implied) {
            self.remove_segment(state, address, stack);
        }
    }

    fn add_segment(&self, state: &mut LedgerState, address: Address, segment: LedgerSegment) {
        state.segments.insert(address.0, segment);
        self.record(Action::SegmentAlloc, address, segment.bytes, segment.stream, segment.stack);
    }

    fn remove_segment(&self, state: &mut LedgerState, address: Address, stack: StackId) {
        let Some(segment) = state.segments.remove(&address.0) else { return };
        self.record(Action::SegmentFree, address, segment.bytes, segment.stream, stack.or(segment.stack));
    }

    fn record(&self, action: Action, address: Address, size_bytes: u64, stream: StreamId, stack: StackId) {
        self.track.record(event(action, address, size_bytes, stream, stack));
    }

    fn state(&self) -> MutexGuard<'_, LedgerState> {
        lock(&self.state)
    }
}

impl LedgerState {
    /// Counts a report that is not taken; returns `false`, as the reports do.
    fn refuse(&mut self, address: Address, reason: Reason) -> bool {
        self.n_contradictions += 1;
        self.latest_contradiction = Some(Contradiction { address, reason });
        false
    }

    fn segment_overlap(&self, start: u64, bytes: u64) -> Option<Reason> {
        let (at, segment) = self.segments.range(..start.saturating_add(bytes)).next_back()?;
        let reason = Reason::OverlapsSegment { address: Address(*at), bytes: segment.bytes };
        (at.saturating_add(segment.bytes) > start).then_some(reason)
    }

    fn block_overlap(&self, start: u64, bytes: u64) -> Option<Reason> {
        let (at, block) = self.blocks.range(..start.saturating_add(bytes)).next_back()?;
        let reason = Reason::OverlapsBlock { address: Address(*at), bytes: block.bytes };
        (at.saturating_add(block.bytes) > start).then_some(reason)
    }

    fn is_in_a_segment(&self, start: u64, bytes: u64) -> bool {
        let last = self.segments.range(..=start).next_back();
        last.is_some_and(|(at, segment)| at.saturating_add(segment.bytes) >= start.saturating_add(bytes))
    }

    /// Returns a segment whose blocks have no gaps: the live blocks, and inactive ones between them.
    fn inventory_of(&self, start: u64, segment: LedgerSegment) -> InventorySegment {
        let end = start + segment.bytes;
        let active = self.blocks.range(start..end).map(|(address, block)| InventoryBlock {
            address: Address(*address),
            size_bytes: block.bytes,
            requested_bytes: block.bytes,
            state: if block.is_pending { BlockState::ActivePendingFree } else { BlockState::ActiveAllocated },
            stack: block.stack,
        });
        let kind = if segment.bytes <= 2 << 20 { PoolKind::Small } else { PoolKind::Large };
        InventorySegment {
            address: Address(start),
            size_bytes: segment.bytes,
            stream: segment.stream,
            kind,
            pool: PoolId::DEFAULT,
            is_expandable: false,
            stack: segment.stack,
            blocks: tiled(start, end, active),
        }
    }
}

/// Makes an event; a ledger has no private pools.
fn event(action: Action, address: Address, size_bytes: u64, stream: StreamId, stack: StackId) -> Event {
    Event { action, address, size_bytes, stream, pool: PoolId::DEFAULT, stack }
}

/// Returns why a range cannot be one: it is empty or leaves the address space.
fn invalid(address: Address, bytes: u64) -> Option<Reason> {
    match address.0.checked_add(bytes) {
        _ if bytes == 0 => Some(Reason::Empty),
        None => Some(Reason::BeyondAddresses),
        Some(_) => None,
    }
}

impl Inventory for Ledger {
    fn device(&self) -> DeviceId {
        self.track.device()
    }

    fn inspect(&self, look: &mut dyn FnMut(&[InventorySegment])) {
        let state = self.state();
        let segments: Vec<_> =
            state.segments.iter().map(|(start, segment)| state.inventory_of(*start, *segment)).collect();
        look(&segments);
    }
}
