//! Groups the entries of a trace by the call that caused them, and turns them into steps.
//!
//! A request records, under one lock, first the frees that it completes, then the segments that it releases and takes,
//! then `alloc` or `oom`. Emptying the cache records only completed frees and released segments
//! (`docs/caching-allocator.md` 3 and 5). So segments that are released before any entry other than a request mean that
//! the cache was emptied. Before a request they may belong to the request's own retry. Four signs decide, in this
//! order:
//!
//! - stacks, if entries have them: the releases of a retry have the stack of the request;
//! - what follows: a retry ends with a new segment, new pages or a failure, or with pages that were already mapped;
//! - a garbage collection threshold in the recorded setting: the releases belong to the request;
//! - the level: a retry happens because memory is full, so the request must have needed more than the
//!   history ever held, and more than a gibibyte, which every device has. Otherwise the cache was emptied.
//!
//! Without stacks the last sign can be wrong: another process may have held the memory, or a program may
//! have emptied its cache before its largest request.
//!
//! A request that fails waits for all streams after it has found no block, so the frees that it completes come after
//! it. In a history that starts with reserved memory, the first request may have been in progress at the first entry:
//! what it released before is not known, and it may already have taken a segment. So it counts as a request before the
//! history, which starts after it.

use super::{
    close_call::CloseCall,
    could_hold::CouldHold,
    live_blocks::{Checked, Freed, LiveBlocks},
    pools::Pools,
    recorded_run::RecordedRun,
    step::{EntryIndex, Prior, Request, SlotIndex, Step},
    streams::Streams,
};
use crate::device::Deed;
use memreel_snapshot::{
    analysis::oom::asked_for_addresses,
    history::{ByDevice, FinalBlock, FinalState, Places, change, disorder},
    model::{Snapshot, StackTable, TraceEntry},
    words::{Action, Address, BlockState, DeviceId, Error, Result, torch::ABSURD_BYTES},
};

/// A device that refuses memory is assumed to have at least this many reserved bytes.
const LEAST_DEVICE_BYTES: u64 = 1 << 30;

/// The steps read from a trace.
pub(super) struct Read {
    pub(super) steps: Vec<Step>,
    pub(super) priors: Vec<Prior>,
    /// The first entry that is replayed.
    pub(super) first_entry: usize,
    pub(super) pools: Pools,
    pub(super) n_streams_shared: usize,
    pub(super) n_slots: usize,
    /// What the device did for each request, by the request's entry.
    pub(super) deeds: Vec<(EntryIndex, Deed)>,
    /// The bytes that the process could hold, if the device ever refused memory.
    pub(super) could_hold: Option<CouldHold>,
    /// The requests that succeeded only after they had released cached segments.
    pub(super) close_calls: Vec<CloseCall>,
    /// Whether a request released cached segments before it succeeded.
    pub(super) gave_back: bool,
    pub(super) warnings: Vec<String>,
}

/// Reads a trace. A trace that contradicts itself is an error.
pub(super) fn read(records: &ByDevice<'_>, device: DeviceId, recorded: &RecordedRun) -> Result<Read> {
    let snapshot = records.snapshot();
    let trace = snapshot.trace(device);
    let has = |action: Action| trace.iter().any(|entry| entry.action == Some(action));
    let places = Places::new(trace.iter().filter(|entry| is_of_block(entry)).map(|entry| entry.address));
    let mut reader = Reader {
        snapshot,
        trace,
        recorded,
        never_completes: !has(Action::FreeCompleted),
        never_requests: !has(Action::FreeRequested),
        end: FinalState::new(records.segments(device)),
        blocks: LiveBlocks::new(&places),
        pools: Pools::new(records, device, trace),
        streams: Streams::default(),
        steps: Vec::with_capacity(trace.len()),
        priors: Vec::new(),
        first_entry: 0,
        may_be_under_way: recorded.start_bytes > 0,
        call: Call::default(),
        reserved_bytes: recorded.start_bytes,
        deeds: Vec::new(),
        could_hold: None,
        close_calls: Vec::new(),
        n_unrequested: 0,
        gave_back: false,
    };
    let contradiction = reader.read();
    let refuse = |entry: usize, what: String| Err(Error::history(device, Some(entry), what));
    let n_missing = match &contradiction {
        Ok(()) => reader.compare_with_the_end(),
        Err(_) => 0,
    };
    if let Some(found) = disorder(trace, contradiction.is_err() || n_missing > 0) {
        let what = format!(
            "out of order, {} us before entry {}: the ring was resized while it held entries; \
             record again with clear_history",
            found.back_us, found.latest
        );
        return refuse(found.entry, what);
    }
    if let Err((entry, what)) = contradiction {
        return refuse(entry, what);
    }
    Ok(reader.finish(n_missing))
}

/// Returns whether an entry is an alloc or a free of a block.
fn is_of_block(entry: &TraceEntry) -> bool {
    matches!(entry.action, Some(Action::Alloc | Action::FreeRequested | Action::FreeCompleted))
}

/// The entries since the end of the last call.
#[derive(Debug, Default)]
struct Call {
    completed: Vec<(SlotIndex, EntryIndex)>,
    /// The first and the last release.
    released: Option<(EntryIndex, EntryIndex)>,
    /// Whether all released segments belong to private pools.
    only_private: bool,
    /// The bytes that were reserved before the first release.
    before_bytes: u64,
    /// The bytes that were taken from the device after the last release.
    grown_bytes: u64,
    deeds: Vec<Deed>,
}

impl Call {
    /// Returns what the device provided.
    fn given(&self) -> impl Iterator<Item = Deed> {
        self.deeds.iter().copied().filter(|deed| *deed != Deed::Took)
    }
}

/// The end of a call.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Served(usize),
    Failed(usize),
    /// An entry that belongs to another call.
    Other,
}

struct Reader<'a> {
    snapshot: &'a Snapshot,
    trace: &'a [TraceEntry],
    recorded: &'a RecordedRun,
    /// Whether the trace has no completed frees.
    never_completes: bool,
    /// Whether the trace has no requested frees.
    never_requests: bool,
    /// The blocks in use in the snapshot's segments.
    end: FinalState<'a>,
    blocks: LiveBlocks<'a>,
    pools: Pools,
    streams: Streams,
    steps: Vec<Step>,
    priors: Vec<Prior>,
    first_entry: usize,
    /// Whether the first request is still to come and may have been in progress at the first entry.
    may_be_under_way: bool,
    call: Call,
    reserved_bytes: u64,
    deeds: Vec<(EntryIndex, Deed)>,
    could_hold: Option<CouldHold>,
    close_calls: Vec<CloseCall>,
    n_unrequested: usize,
    gave_back: bool,
}

/// Returns an entry's index, which fits because a trace has fewer than 2^32 entries.
#[allow(clippy::cast_possible_truncation)]
fn number(entry: usize) -> EntryIndex {
    entry as EntryIndex
}

impl Reader<'_> {
    fn read(&mut self) -> std::result::Result<(), (usize, String)> {
        let mut at = 0;
        while at < self.trace.len() {
            let n_used = self.entry(at).map_err(|what| (at, what))?;
            at += n_used;
        }
        self.end_call(End::Other);
        Ok(())
    }

    /// Reads one entry; for a free, also its completion. Returns the number of entries read.
    fn entry(&mut self, at: usize) -> Checked<usize> {
        let entry = &self.trace[at];
        let Some(action) = entry.action else { return Ok(1) };
        if (is_of_block(entry) || action == Action::Oom) && !(1..ABSURD_BYTES).contains(&entry.size) {
            return Err(format!("{} of {} bytes; a block has 1 to 2^60 - 1", action.name(), entry.size));
        }
        match action {
            Action::Alloc => self.alloc(at)?,
            // A request for addresses is not a request for memory.
            Action::Oom if asked_for_addresses(self.snapshot, entry) => {}
            Action::Oom => self.oom(at),
            Action::FreeRequested => return self.free(at),
            Action::FreeCompleted => self.complete(at)?,
            Action::SegmentFree | Action::SegmentUnmap => self.release(at),
            Action::SegmentAlloc | Action::SegmentMap => {
                self.call.grown_bytes = self.call.grown_bytes.saturating_add(entry.size);
                let (address, size_bytes) = (entry.address, entry.size);
                self.call.deeds.push(match action {
                    Action::SegmentMap => {
                        let pool = self.pools.of_entry(self.snapshot, at, entry);
                        Deed::Mapped { address, size_bytes, owner: (entry.stream, pool) }
                    }
                    _ => Deed::Gave { address, size_bytes },
                });
            }
            Action::Snapshot => drop(self.end_call(End::Other)),
            _ => {}
        }
        let reserved_bytes = (i128::from(self.reserved_bytes) + change(entry)).max(0);
        self.reserved_bytes = u64::try_from(reserved_bytes).unwrap_or(u64::MAX);
        Ok(1)
    }

    fn request(&mut self, at: usize) -> Request {
        let entry = &self.trace[at];
        let pool = self.pools.of_entry(self.snapshot, at, entry);
        Request { bytes: entry.size, stream: self.streams.of(entry.stream), entry: number(at), pool }
    }

    fn alloc(&mut self, at: usize) -> Checked<()> {
        let entry = &self.trace[at];
        self.complete_unseen(at);
        let after = self.end_call(End::Served(at));
        let slot = self.blocks.alloc(entry)?;
        let request = self.request(at);
        if self.is_under_way() {
            self.begin_after(at);
            let Request { bytes, stream, pool, .. } = request;
            let (address, stack, block_bytes, is_pending) = (entry.address, entry.stack, None, false);
            self.priors.push(Prior { address, bytes, stream, pool, slot, stack, block_bytes, is_pending });
            return Ok(());
        }
        self.steps.push(Step::Alloc { request, slot });
        self.complete_all(after.unwrap_or_default());
        Ok(())
    }

    /// Returns whether the request that has just ended may have been in progress at the first entry.
    fn is_under_way(&mut self) -> bool {
        let is_complete = |step: &Step| matches!(step, Step::Complete { .. });
        std::mem::take(&mut self.may_be_under_way) && self.steps.iter().all(is_complete)
    }

    /// Starts the history after the first request, which ended with an entry: what was read so far happened before it.
    fn begin_after(&mut self, at: usize) {
        // The frees that it completed are the only ones before it.
        self.priors.clear();
        self.steps.clear();
        self.deeds.clear();
        (self.could_hold, self.gave_back) = (None, false);
        self.close_calls.clear();
        self.first_entry = at + 1;
    }

    /// Completes the free of the block at an address before the next block is allocated there, in a trace
    /// without completed frees.
    fn complete_unseen(&mut self, at: usize) {
        let address = self.trace[at].address;
        let Some(live) = self.blocks.get(address).filter(|live| self.never_completes && live.is_pending)
        else {
            return;
        };
        self.blocks.complete_unrecorded(address);
        if self.is_pending_at_end(address) {
            self.steps.push(Step::Complete { slot: live.slot, entry: number(at) });
        }
    }

    fn is_pending_at_end(&self, address: Address) -> bool {
        self.end.state(address) == Some(BlockState::ActivePendingFree)
    }

    fn oom(&mut self, at: usize) {
        let after = self.end_call(End::Failed(at));
        let entry = &self.trace[at];
        let failed = CouldHold::of_failure(entry, self.reserved_bytes, &self.recorded.settings);
        if self.is_under_way() {
            self.begin_after(at);
            self.could_hold = Some(failed);
            return;
        }
        self.could_hold = Some(failed);
        let request = self.request(at);
        self.steps.push(Step::Fail { request });
        self.complete_all(after.unwrap_or_default());
    }

    fn free(&mut self, at: usize) -> Checked<usize> {
        self.end_call(End::Other);
        self.may_be_under_way = false;
        let entry = &self.trace[at];
        let freed = self.blocks.request_free(entry)?;
        self.note_prior(freed, at, false);
        let (slot, number) = (freed.slot(), number(at));
        let next = self.trace.get(at + 1);
        let is_completed = next
            .is_some_and(|next| next.action == Some(Action::FreeCompleted) && next.address == entry.address);
        // A request directly after the free may have completed it, after it had found no block.
        if is_completed && self.are_one_call(at, at + 1) != Some(false) {
            self.blocks.complete_free(&self.trace[at + 1])?;
            self.steps.push(Step::Free { slot, entry: number });
            return Ok(2);
        }
        let is_late = !self.never_completes || self.is_pending_at_end(entry.address);
        let step = if is_late {
            Step::FreeLater { slot, entry: number }
        } else {
            Step::Free { slot, entry: number }
        };
        self.steps.push(step);
        Ok(1)
    }

    fn complete(&mut self, at: usize) -> Checked<()> {
        let entry = &self.trace[at];
        let (freed, was_requested) = self.blocks.complete_free(entry)?;
        let is_pending = matches!(freed, Freed::New(_)) && !self.never_requests;
        self.note_prior(freed, at, is_pending);
        if !was_requested && !is_pending {
            self.n_unrequested += 1;
            self.steps.push(Step::FreeLater { slot: freed.slot(), entry: number(at) });
        }
        self.call.completed.push((freed.slot(), number(at)));
        Ok(())
    }

    fn release(&mut self, at: usize) {
        let is_private = self.pools.of_entry(self.snapshot, at, &self.trace[at]) != 0;
        let at = number(at);
        match &mut self.call.released {
            Some((_, last)) => *last = at,
            first @ None => {
                *first = Some((at, at));
                self.call.before_bytes = self.reserved_bytes;
                self.call.only_private = true;
            }
        }
        self.call.only_private &= is_private;
        self.call.grown_bytes = 0;
        self.call.deeds.push(Deed::Took);
    }

    fn note_prior(&mut self, freed: Freed, at: usize, is_pending: bool) {
        if let Freed::New(slot) = freed {
            let entry = &self.trace[at];
            let pool = self.pools.of_entry(self.snapshot, at, entry);
            let (address, bytes) = (entry.address, entry.size);
            let stream = self.streams.of(entry.stream);
            let (stack, block_bytes) = (None, None);
            self.priors.push(Prior { address, bytes, stream, pool, slot, stack, block_bytes, is_pending });
        }
    }

    /// Adds the steps of the entries before the end of a call. Returns the frees that the retry of a request
    /// completed, whose steps come after the request.
    fn end_call(&mut self, end: End) -> Option<Vec<(SlotIndex, EntryIndex)>> {
        let call = std::mem::take(&mut self.call);
        let first = call.released.map(|(first, _)| first);
        let is_own = first.is_some() && self.is_own(&call, end);
        match end {
            End::Served(at) | End::Failed(at) if is_own => {
                self.deeds.extend(call.deeds.iter().map(|deed| (number(at), *deed)));
            }
            End::Served(at) | End::Failed(at) => {
                self.deeds.extend(call.given().map(|deed| (number(at), deed)));
            }
            // Another thread recorded an entry while the device worked.
            End::Other => self.call.deeds = call.given().collect(),
        }
        if is_own {
            self.gave_back = true;
            self.note_full(&call, end);
            return Some(call.completed);
        }
        // A request that fails waits for all streams after it has found no block.
        if matches!(end, End::Failed(_)) && first.is_none() {
            return Some(call.completed);
        }
        // The first completions may be those of a free whose request was before the first entry.
        let has_emptied = end == End::Other && !self.may_be_under_way;
        let first = first.or(call.completed.first().map(|(_, entry)| *entry).filter(|_| has_emptied));
        self.complete_all(call.completed);
        if let Some(entry) = first.filter(|_| !call.only_private) {
            self.steps.push(Step::EmptyCache { entry });
        }
        None
    }

    /// Records what is known from a request that released its own segments before it succeeded.
    fn note_full(&mut self, call: &Call, end: End) {
        if let End::Served(at) = end
            && !self.recorded.collects_garbage
        {
            let most_bytes = self.recorded.settings.growth_bytes(self.trace[at].size);
            let most_bytes = call.before_bytes.saturating_add(most_bytes).saturating_sub(1);
            self.could_hold = Some(CouldHold::at_most(most_bytes, self.could_hold));
            if let Some((first, last)) = call.released {
                let releases = [first as usize, last as usize];
                self.close_calls.push(CloseCall::new(self.trace, at, releases));
            }
        }
    }

    fn complete_all(&mut self, completed: Vec<(SlotIndex, EntryIndex)>) {
        self.steps.extend(completed.into_iter().map(|(slot, entry)| Step::Complete { slot, entry }));
    }

    /// Returns whether two entries have the same stack; `None` if one has none.
    fn are_one_call(&self, one: usize, other: usize) -> Option<bool> {
        let stack = |at: usize| self.trace[at].stack.filter(|stack| *stack != StackTable::EMPTY);
        Some(stack(one)? == stack(other)?)
    }

    /// Returns whether a request released the segments itself; the module's documentation has the rules.
    fn is_own(&self, call: &Call, end: End) -> bool {
        let (Some((_, last)), End::Served(at) | End::Failed(at)) = (call.released, end) else { return false };
        let has_failed = matches!(end, End::Failed(_));
        if let Some(is_one) = self.are_one_call(last as usize, at) {
            return is_one;
        }
        if call.grown_bytes == 0 && !has_failed {
            return false;
        }
        let level_bytes = call.before_bytes.saturating_add(call.grown_bytes);
        has_failed
            || self.recorded.collects_garbage
            || level_bytes > self.recorded.reserved_peak_bytes.max(LEAST_DEVICE_BYTES)
    }

    /// Adds the blocks that are in use at the end and have no entry. Returns the number of blocks for which the trace
    /// and the end disagree.
    fn compare_with_the_end(&mut self) -> usize {
        let mut n_differ = 0;
        for found in self.end.blocks().to_vec() {
            let address = found.block.address;
            if !self.blocks.knows(address) {
                self.pre_existing(&found);
            } else if self.blocks.get(address).is_none() {
                n_differ += 1;
            }
        }
        for (address, live) in self.blocks.live() {
            n_differ += usize::from(match self.end.state(address) {
                Some(state) => (state == BlockState::ActiveAllocated) == live.is_pending,
                None => !(live.is_pending && self.never_completes),
            });
        }
        n_differ
    }

    fn pre_existing(&mut self, FinalBlock { block, segment, .. }: &FinalBlock<'_>) {
        let bytes = block.requested_size;
        if !(1..ABSURD_BYTES).contains(&bytes) {
            return;
        }
        let (slot, pool) = (self.blocks.new_slot(), self.pools.number(segment.pool));
        let (stream, stack) = (self.streams.of(segment.stream), block.stack);
        let (address, block_bytes) = (block.address, Some(block.size));
        let is_pending = block.state == Some(BlockState::ActivePendingFree);
        self.priors.push(Prior { address, bytes, stream, pool, slot, stack, block_bytes, is_pending });
    }

    fn finish(mut self, n_missing: usize) -> Read {
        self.priors.sort_by_key(|prior| prior.address);
        let mut warnings = Vec::new();
        warn(
            &mut warnings,
            n_missing,
            "blocks live by the trace but not in the segments, or the reverse",
            "",
        );
        warn(&mut warnings, self.n_unrequested, "completed frees whose request was not recorded", "");
        if self.never_completes {
            let n = self.steps.iter().filter(|step| matches!(step, Step::Free { .. })).count();
            warn(
                &mut warnings,
                n,
                "frees recorded without their completion",
                "; they count as completed immediately",
            );
        }
        let n = self.steps.iter().filter(|step| matches!(step, Step::Fail { .. })).count();
        let (requests, one) = if n == 1 { ("request", "it") } else { ("requests", "one") };
        if n > 0 {
            warnings.push(format!(
                "{n} {requests} failed in the recorded run; if the replay can satisfy {one}, it frees the \
                 block again immediately"
            ));
        }
        warn(
            &mut warnings,
            self.pools.n_shared(),
            "private pools beyond the first 1024",
            "; the replay takes their requests from the default pool",
        );
        warn(
            &mut warnings,
            self.streams.n_shared(),
            "streams beyond the first 4096",
            "; the replay treats their requests as the default stream's",
        );
        let is_private = |step: &&Step| matches!(step, Step::Alloc { request, .. } if request.pool != 0);
        let n = self.steps.iter().filter(is_private).count();
        warn(
            &mut warnings,
            n,
            "requests to private pools",
            "; the replay takes them from private pools, which it keeps to the end",
        );
        Read {
            steps: self.steps,
            priors: self.priors,
            first_entry: self.first_entry,
            pools: self.pools,
            n_streams_shared: self.streams.n_shared(),
            n_slots: self.blocks.n_slots(),
            deeds: self.deeds,
            could_hold: self.could_hold,
            close_calls: self.close_calls,
            gave_back: self.gave_back,
            warnings,
        }
    }
}

/// Adds a warning about a number of things, if there are any.
fn warn(warnings: &mut Vec<String>, n: usize, what: &str, effect: &str) {
    if n > 0 {
        warnings.push(format!("{what}: {n}{effect}"));
    }
}
