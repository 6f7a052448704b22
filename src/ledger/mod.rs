//! Records the reports of an allocator that does not keep an inventory of its blocks.
#![forbid(unsafe_code)]

use std::{
    ops::Range,
    sync::{Arc, Mutex, MutexGuard},
};

mod contradiction;
mod state;

use crate::{
    process::fork,
    recorder::{Recorder, Track},
};
use contradiction::Reported;
use memreel_lockfree::sync::lock;
use memreel_snapshot::words::{
    Action, Address, DeviceId, Event, Inventory, InventorySegment, PoolId, Refusal, StackId, StreamId,
};
use state::{LedgerSegment, LedgerState, LiveBlock, Origin, invalid};

pub use contradiction::{Contradiction, Reason};

/// Records the reports of an allocator that is not memreel's, and keeps a list of its blocks for snapshots.
///
/// Report segments, allocations and frees when they happen; report a free *before* the memory can be
/// allocated again. An allocation outside all reported segments is shown as a segment of its own.
///
/// A report that contradicts earlier ones (a free of an unknown address, an allocation over a live block)
/// is not recorded, because viewers fail on such traces. The method then returns a [`Contradiction`], which says
/// what is wrong and what to do, and converts to [`Error`](crate::Error). Callers that cannot act on it may ignore it:
/// [`Ledger::n_contradictions`] counts it.
///
/// Do not report blocks of memreel's own allocator on the same device: they would be recorded twice.
///
/// A ledger allocates on the host heap while it has its lock, so it cannot be used inside the process's own
/// `GlobalAlloc`. `Heap` records that one; `Recorded` reports other allocators to a ledger.
///
/// ```
/// use memreel::{Address, StreamId};
/// use memreel::recorder::{Recording, Recorder};
/// use memreel::snapshot::{Dialect, collect};
///
/// let recorder = Recorder::new();
/// recorder.record_history(&Recording::all());
/// let ledger = recorder.ledger(0);
///
/// ledger.segment_alloc(Address(0x10000), 4096, StreamId::DEFAULT)?;
/// ledger.alloc(Address(0x10000), 1000, StreamId::DEFAULT)?;
/// let why = ledger.free(Address(0x10200)).unwrap_err().to_string();
/// assert!(why.starts_with("no live block starts at 0x10200"), "{why}");
///
/// let snapshot = collect(&recorder, [&ledger], Dialect::default());
/// assert_eq!(snapshot.segments.len(), 1);
/// # Ok::<(), memreel::Error>(())
/// ```
#[derive(Debug)]
pub struct Ledger {
    track: Track,
    state: Arc<Mutex<LedgerState>>,
}

impl Recorder {
    /// Returns a ledger for a device's allocator that is not memreel's.
    #[must_use]
    pub fn ledger(&self, device: impl Into<DeviceId>) -> Ledger {
        Ledger::new(self.track(device))
    }
}

impl Ledger {
    fn new(track: Track) -> Ledger {
        let state = Arc::new(Mutex::default());
        fork::register(fork::Level::Allocator, &state);
        Ledger { track, state }
    }

    /// Reports that the allocator got a segment of `bytes` bytes from the device.
    ///
    /// # Errors
    /// The range is empty, leaves the address space, or overlaps a known segment.
    pub fn segment_alloc(&self, address: Address, bytes: u64, stream: StreamId) -> Result<(), Contradiction> {
        self.new_segment(address, bytes, stream, Origin::Reported)
    }

    /// Reports that memory was mapped into a range of addresses, which may have been mapped before.
    ///
    /// # Errors
    /// The range is empty, leaves the address space, or overlaps a known segment.
    ///
    /// ```
    /// use memreel::{Action, Address, StreamId};
    /// use memreel::recorder::{Recording, Recorder};
    /// use memreel::snapshot::{Dialect, collect};
    ///
    /// let recorder = Recorder::new();
    /// recorder.record_history(&Recording::all());
    /// let ledger = recorder.ledger(0);
    /// ledger.segment_map(Address(0x20_0000), 2 << 20, StreamId::DEFAULT)?;
    /// ledger.segment_map(Address(0x40_0000), 2 << 20, StreamId::DEFAULT)?;
    /// assert_eq!(ledger.segment_unmap(Address(0x20_0000), 4 << 20)?, 2);
    ///
    /// let snapshot = collect(&recorder, [&ledger], Dialect::default());
    /// assert_eq!(snapshot.device_traces[0][3].action, Some(Action::SegmentUnmap));
    /// # Ok::<(), memreel::Error>(())
    /// ```
    pub fn segment_map(&self, address: Address, bytes: u64, stream: StreamId) -> Result<(), Contradiction> {
        self.new_segment(address, bytes, stream, Origin::Mapped)
    }

    /// Captures the calling thread's stack for [`Ledger::block_map_by`].
    #[must_use]
    pub fn stack_of_segment(&self) -> StackId {
        self.track.stack_of_segment()
    }

    /// Reports that a program mapped memory itself, in the call whose stack [`Ledger::stack_of_segment`] captured. It
    /// is recorded as a mapped segment that one block fills, because no allocator has blocks in it.
    ///
    /// # Errors
    /// Those of [`Ledger::segment_map`].
    ///
    /// ```
    /// use memreel::{Action, Address, StreamId};
    /// use memreel::recorder::{Recording, Recorder};
    /// use memreel::snapshot::{Dialect, collect};
    ///
    /// let recorder = Recorder::new();
    /// recorder.record_history(&Recording::all());
    /// let ledger = recorder.ledger(0);
    /// ledger.block_map_by(Address(0x20_0000), 2 << 20, StreamId::DEFAULT, ledger.stack_of_segment())?;
    /// assert_eq!(ledger.block_bytes(Address(0x20_0000)), Some(2 << 20));
    /// assert_eq!(ledger.block_unmap(Address(0x20_0000), 2 << 20)?, 1);
    ///
    /// let snapshot = collect(&recorder, [&ledger], Dialect::default());
    /// let actions: Vec<_> = snapshot.device_traces[0].iter().filter_map(|entry| entry.action).collect();
    /// assert_eq!(actions[..2], [Action::SegmentMap, Action::Alloc]);
    /// assert_eq!(actions[2..5], [Action::FreeRequested, Action::FreeCompleted, Action::SegmentUnmap]);
    /// # Ok::<(), memreel::Error>(())
    /// ```
    pub fn block_map_by(
        &self,
        address: Address,
        bytes: u64,
        stream: StreamId,
        stack: StackId,
    ) -> Result<(), Contradiction> {
        let segment = LedgerSegment { bytes, stream, stack, origin: Origin::Mapped };
        let of_block = self.track.unless_filtered(bytes, stack);
        let mut state = self.state();
        self.new_segment_in(&mut state, address, segment)?;
        self.add_block(&mut state, address, LiveBlock { bytes, stream, stack: of_block, is_pending: false });
        Ok(())
    }

    /// Reports that the mappings in a range of addresses will be removed, and are no longer used. Otherwise like
    /// [`Ledger::segment_unmap`].
    ///
    /// # Errors
    /// Those of [`Ledger::segment_unmap`].
    pub fn block_unmap(&self, address: Address, bytes: u64) -> Result<usize, Contradiction> {
        self.unmap(address, bytes, |state, at, stack| {
            self.request_free(state, at, stack)?;
            self.complete_free(state, at, stack);
            Ok(())
        })
    }

    /// Reports that the mappings in a range of addresses will be removed.
    ///
    /// Returns how many mapped segments are completely in the range, each of which is an event.
    ///
    /// # Errors
    /// No mapped segment is completely in the range; or one has a live block: it remains, and the others are removed.
    pub fn segment_unmap(&self, address: Address, bytes: u64) -> Result<usize, Contradiction> {
        self.unmap(address, bytes, |_, _, _| Ok(()))
    }

    /// Reports that the allocator returns a segment to the device.
    ///
    /// # Errors
    /// No segment starts at `address`, or a block in it is live.
    pub fn segment_free(&self, address: Address) -> Result<(), Contradiction> {
        let stack = self.track.stack_of_free(StackId::NONE);
        self.free_segment(&mut self.state(), address, stack)
    }

    /// Reports that the allocator allocated a block of `bytes` requested bytes.
    ///
    /// Pending frees of blocks in the range complete first: otherwise the allocator could not have allocated the range
    /// again.
    ///
    /// # Errors
    /// The range is empty, leaves the address space, overlaps a live block, or is partly in a segment.
    pub fn alloc(&self, address: Address, bytes: u64, stream: StreamId) -> Result<(), Contradiction> {
        let stack = self.track.stack_of_alloc(bytes);
        let mut state = self.state();
        self.complete_in(&mut state, address.0..address.0.saturating_add(bytes));
        if let Some(reason) = invalid(address, bytes).or_else(|| state.block_overlap(address.0, bytes)) {
            return state.refuse(address, reason);
        }
        if !state.is_in_a_segment(address.0, bytes) {
            if let Some(reason) = state.segment_overlap(address.0, bytes) {
                return state.refuse(address, reason);
            }
            self.add_segment(
                &mut state,
                address,
                LedgerSegment { bytes, stream, stack, origin: Origin::Implied },
            );
        }
        self.add_block(&mut state, address, LiveBlock { bytes, stream, stack, is_pending: false });
        Ok(())
    }

    /// Reports that the program freed a block that no stream uses any longer.
    ///
    /// Like [`Ledger::free_requested`] followed by [`Ledger::free_completed`].
    ///
    /// # Errors
    /// No live block starts at `address`, or its free was requested before.
    pub fn free(&self, address: Address) -> Result<(), Contradiction> {
        let stack = self.track.stack_of_free(StackId::NONE);
        let mut state = self.state();
        self.request_free(&mut state, address, stack)?;
        self.complete_free(&mut state, address, stack);
        Ok(())
    }

    /// Reports that the program freed a block that a stream may still use.
    ///
    /// # Errors
    /// No live block starts at `address`, or its free was requested before.
    pub fn free_requested(&self, address: Address) -> Result<(), Contradiction> {
        let stack = self.track.stack_of_free(StackId::NONE);
        self.request_free(&mut self.state(), address, stack)
    }

    /// Reports that no stream uses a freed block any longer.
    ///
    /// # Errors
    /// [`Ledger::free_requested`] did not come before.
    pub fn free_completed(&self, address: Address) -> Result<(), Contradiction> {
        self.complete_requested(address, self.track.stack_of_free(StackId::NONE))
    }

    /// Like [`Ledger::free_completed`], for a thread that has nothing to do with the block: captures no stack.
    ///
    /// # Errors
    /// Those of [`Ledger::free_completed`].
    pub fn free_completed_later(&self, address: Address) -> Result<(), Contradiction> {
        self.complete_requested(address, StackId::NONE)
    }

    /// Records the name of a live block, as PyTorch 2.14's `annotate` does; see [`Track::annotate`].
    ///
    /// # Errors
    /// No live block starts at `address`, or its free was requested.
    pub fn annotate(&self, address: Address, name: &str) -> Result<(), Contradiction> {
        let stack = self.track.stack_of_segment();
        let mut state = self.state();
        let block = match state.blocks.get(&address.0) {
            Some(block) if !block.is_pending => *block,
            Some(_) => return state.refuse(address, Reason::FreeRequested),
            None => return state.refuse(address, Reason::NoBlock),
        };
        let stack = stack.of_free(block.stack);
        self.track.annotate(event(Action::Annotate, address, block.bytes, block.stream, stack), name);
        Ok(())
    }

    /// Reports that a request failed; `Session::refused` of [`integrate`](crate::integrate) explains it.
    pub fn oom(&self, refusal: Refusal) {
        let stack = self.track.stack_of_segment();
        let _state = self.state();
        let Refusal { bytes, stream, device_free_bytes, .. } = refusal;
        self.record(Action::Oom, Address(device_free_bytes), bytes, stream, stack);
    }

    /// Returns how many reports contradicted earlier ones and were not recorded.
    #[must_use]
    pub fn n_contradictions(&self) -> u64 {
        self.state().n_contradictions
    }

    /// Returns the latest report, from any thread, that contradicted earlier ones: for allocators whose methods cannot
    /// return it, such as [`Recorded`](crate::Recorded).
    #[must_use]
    pub fn latest_contradiction(&self) -> Option<Contradiction> {
        self.state().latest_contradiction
    }

    /// Returns the size of the block at an address in bytes; `None` if no live block starts there, or if its free was
    /// requested.
    #[must_use]
    pub fn block_bytes(&self, address: Address) -> Option<u64> {
        self.state().blocks.get(&address.0).filter(|block| !block.is_pending).map(|block| block.bytes)
    }

    fn new_segment(&self, address: Address, bytes: u64, stream: StreamId, origin: Origin) -> Reported {
        let stack = self.track.stack_of_segment();
        self.new_segment_in(&mut self.state(), address, LedgerSegment { bytes, stream, stack, origin })
    }

    fn new_segment_in(&self, state: &mut LedgerState, address: Address, segment: LedgerSegment) -> Reported {
        let bytes = segment.bytes;
        if let Some(reason) = invalid(address, bytes).or_else(|| state.segment_overlap(address.0, bytes)) {
            return state.refuse(address, reason);
        }
        self.add_segment(state, address, segment);
        Ok(())
    }

    fn add_block(&self, state: &mut LedgerState, address: Address, block: LiveBlock) {
        state.blocks.insert(address.0, block);
        self.record(Action::Alloc, address, block.bytes, block.stream, block.stack);
    }

    /// Removes the mapped segments in a range, each after `prepare`; the first that remains is the error.
    fn unmap(
        &self,
        address: Address,
        bytes: u64,
        prepare: impl Fn(&mut LedgerState, Address, StackId) -> Reported,
    ) -> Result<usize, Contradiction> {
        let stack = self.track.stack_of_free(StackId::NONE);
        let mut state = self.state();
        let within = state.mapped_in(address, bytes);
        if within.is_empty() {
            state.refuse(address, Reason::NoMapping)?;
        }
        let mut first = Ok(within.len());
        for at in within.into_iter().map(Address) {
            let prepared = prepare(&mut state, at, stack);
            let freed = self.free_segment(&mut state, at, stack);
            first = first.and_then(|n| prepared.and(freed).map(|()| n));
        }
        first
    }

    fn free_segment(&self, state: &mut LedgerState, address: Address, stack: StackId) -> Reported {
        let Some(segment) = state.segments.get(&address.0).copied() else {
            return state.refuse(address, Reason::NoSegment);
        };
        let mut live = state.blocks.range(address.0..address.0.saturating_add(segment.bytes));
        if let Some(block) = live.next().map(|(block, _)| Address(*block)) {
            return state.refuse(address, Reason::HasBlock { address: block });
        }
        self.remove_segment(state, address, stack);
        Ok(())
    }

    /// Completes the frees of blocks in a range.
    fn complete_in(&self, state: &mut LedgerState, range: Range<u64>) {
        while let Some((at, block)) = state.blocks.range(..range.end).next_back()
            && block.is_pending
            && at.saturating_add(block.bytes) > range.start
        {
            let (at, stack) = (Address(*at), block.stack);
            self.complete_free(state, at, stack);
        }
    }

    fn complete_requested(&self, address: Address, stack: StackId) -> Reported {
        let mut state = self.state();
        match state.blocks.get(&address.0) {
            Some(block) if block.is_pending => {
                self.complete_free(&mut state, address, stack);
                Ok(())
            }
            Some(_) => state.refuse(address, Reason::FreeNotRequested),
            None => state.refuse(address, Reason::NoBlock),
        }
    }

    fn request_free(&self, state: &mut LedgerState, address: Address, stack: StackId) -> Reported {
        match state.blocks.get_mut(&address.0) {
            Some(block) if !block.is_pending => {
                block.is_pending = true;
                let block = *block;
                let stack = stack.of_free(block.stack);
                self.record(Action::FreeRequested, address, block.bytes, block.stream, stack);
                Ok(())
            }
            Some(_) => state.refuse(address, Reason::FreeRequested),
            None => state.refuse(address, Reason::NoBlock),
        }
    }

    fn complete_free(&self, state: &mut LedgerState, address: Address, stack: StackId) {
        let Some(block) = state.blocks.remove(&address.0) else { return };
        self.record(Action::FreeCompleted, address, block.bytes, block.stream, stack.of_free(block.stack));
        if state.segments.get(&address.0).is_some_and(|segment| segment.origin == Origin::Implied) {
            self.remove_segment(state, address, stack);
        }
    }

    fn add_segment(&self, state: &mut LedgerState, address: Address, segment: LedgerSegment) {
        state.segments.insert(address.0, segment);
        let action = if segment.origin == Origin::Mapped { Action::SegmentMap } else { Action::SegmentAlloc };
        self.record(action, address, segment.bytes, segment.stream, segment.stack);
    }

    fn remove_segment(&self, state: &mut LedgerState, address: Address, stack: StackId) {
        let Some(segment) = state.segments.remove(&address.0) else { return };
        let action =
            if segment.origin == Origin::Mapped { Action::SegmentUnmap } else { Action::SegmentFree };
        self.record(action, address, segment.bytes, segment.stream, stack.or(segment.stack));
    }

    fn record(&self, action: Action, address: Address, size_bytes: u64, stream: StreamId, stack: StackId) {
        self.track.record(event(action, address, size_bytes, stream, stack));
    }

    fn state(&self) -> MutexGuard<'_, LedgerState> {
        lock(&self.state)
    }
}

/// Creates an event; a ledger has no private pools.
fn event(action: Action, address: Address, size_bytes: u64, stream: StreamId, stack: StackId) -> Event {
    Event { action, address, size_bytes, stream, pool: PoolId::DEFAULT, stack }
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
