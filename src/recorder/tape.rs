//! The newest events of one device, in chunks that each thread fills alone.
//!
//! A thread owns one chunk of a tape at a time (`writer.rs`) and writes to it without a lock. The lock here
//! protects the lists of chunks; it is taken about once in a thousand events, when a chunk is full.
//!
//! ```text
//!  idle: chunks of threads that ended        full: oldest … newest
//!        │                                         ▲        │
//!        └──► open: one chunk for each thread ─────┘        └──► dropped, or reused as an open chunk
//! ```
//!
//! The oldest full chunk is dropped when the chunks that begin after it hold the capacity. So a tape uses
//! the memory of its capacity and of two more chunks for each thread.
#![forbid(unsafe_code)]

#[cfg(not(loom))]
use std::sync::atomic::AtomicBool;
use std::{
    collections::VecDeque,
    sync::{Arc, atomic::Ordering},
};

#[cfg(not(loom))]
use super::in_file::{BaseCut, InFile, Work};
use super::{
    chunk::{Chunk, FullChunk},
    clock::Ticks,
    log::{ACTION_BITS, Cut},
};
#[cfg(not(loom))]
use crate::process::fork::Held;
use crate::process::{
    counters,
    guard::Guard,
    sync::{AtomicU64, Mutex, fence, lock},
};
#[cfg(not(loom))]
use memreel_snapshot::words::InventorySegment;

/// The events of one device.
#[derive(Debug)]
#[repr(align(128))]
pub(super) struct Tape {
    /// Changes whenever the tape is erased, and is unique among all tapes of the process. A thread compares
    /// it with the generation of its chunk to see whether that chunk still belongs to this tape. Stored under the lock of
    /// `state`. Relaxed: a thread that reads an old one without the lock writes to the chunk of that generation, whose
    /// events are dropped or kept as if they had been recorded before the change.
    generation: AtomicU64,
    /// The latest ticks given out under the allocator's lock. Relaxed: that lock orders it, also for a cut of the
    /// allocator's events; a cut without the lock has the time besides.
    last: AtomicU64,
    /// Events that could not be recorded and that no chunk counts yet. What loses them may be a signal handler that interrupted
    /// the recording of another event, which cannot take a lock. Relaxed: a count, with which nothing else has to agree.
    pub(super) n_lost: AtomicU64,
    /// Whether work in the file became due while the recording thread had a lock of its own. Relaxed: the work itself is
    /// found under the lock of `state`.
    #[cfg(not(loom))]
    is_postponed: AtomicBool,
    pub(super) state: Mutex<TapeState>,
}

/// The chunks of a tape.
#[derive(Debug)]
pub(super) struct TapeState {
    capacity: usize,
    /// In the order in which they were filled.
    pub(super) full: VecDeque<FullChunk>,
    /// Each is being written by one thread.
    pub(super) open: Vec<Arc<Chunk>>,
    /// Chunks whose threads ended before they were full; the next thread continues them.
    pub(super) idle: Vec<Arc<Chunk>>,
    /// The order word of the newest dropped event. Events up to it that are still in chunks are not read
    /// either, so that the history has no gaps.
    horizon: u64,
    pub(super) n_dropped: u64,
    /// The part of a file that new chunks are in.
    #[cfg(not(loom))]
    pub(super) in_file: Option<Box<InFile>>,
}

/// What a ring had dropped when the chunk began whose first event has the order word `until`.
#[cfg(not(loom))]
pub(crate) struct DroppedEvents {
    pub(crate) n_events: u64,
    pub(crate) until: u64,
}

/// Returns the order word of an event in a chunk.
pub(super) fn order_word(chunk: &Chunk, index: usize) -> u64 {
    chunk.read(index)[1]
}

/// Returns the highest order word of an event at these ticks.
pub(super) fn order_limit(at: Ticks) -> u64 {
    (at.0 << ACTION_BITS) | ((1 << ACTION_BITS) - 1)
}

/// Returns the events of these chunks, as they were read from a file. Of what was dropped, the chunks that waited in the file
/// count once.
#[cfg(not(loom))]
pub(crate) fn past_cut(chunks: &[Arc<Chunk>], capacity: usize, dropped: &DroppedEvents, horizon: u64) -> Cut {
    let last = |chunk: &Chunk| order_word(chunk, Chunk::N_ENTRIES - 1);
    let is_before = |chunk: &&Arc<Chunk>| chunk.len() == Chunk::N_ENTRIES && last(chunk) < dropped.until;
    let mut as_filled: Vec<_> = chunks.iter().filter(is_before).collect();
    as_filled.sort_by_key(|chunk| last(chunk));
    let capacity = capacity.max(1);
    let mut ring = TapeState::new(capacity);
    for chunk in as_filled {
        ring.put(chunk.clone());
        ring.drop_oldest();
    }
    let n_dropped = dropped.n_events.saturating_sub(ring.n_dropped);
    Cut { capacity, n_dropped, ..Cut::whole(chunks, horizon) }
}

fn new_generation() -> u64 {
    static NEXT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(1);
    // Relaxed: only each number's being another counts.
    NEXT.fetch_add(1, Ordering::Relaxed)
}

impl Tape {
    pub(super) fn new(capacity: usize) -> Tape {
        Tape {
            generation: AtomicU64::new(new_generation()),
            last: AtomicU64::new(0),
            n_lost: AtomicU64::new(0),
            #[cfg(not(loom))]
            is_postponed: AtomicBool::new(false),
            state: Mutex::new(TapeState::new(capacity.max(1))),
        }
    }

    /// Returns the generation; chunks of other generations do not belong to this tape.
    #[inline]
    pub(super) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Relaxed)
    }

    /// Returns ticks later than all ticks it returned before under the caller's lock: the sequence number of
    /// the device's events.
    ///
    /// Because the caller has a lock, a load and a store suffice; an atomic read-modify-write would cost half
    /// of an event. If two locks share a tape (an allocator's and a ledger's), events of the two are ordered
    /// only as precisely as their times.
    #[inline]
    pub(super) fn next_ticks(&self, now: Ticks) -> Ticks {
        let next = now.0.max(self.last.load(Ordering::Relaxed) + 1);
        self.last.store(next, Ordering::Relaxed);
        Ticks(next)
    }

    /// Notes that work in the file is due, which the caller of the present event does when it has no lock.
    #[cfg(not(loom))]
    pub(super) fn postpone(&self) {
        self.is_postponed.store(true, Ordering::Relaxed);
    }

    /// Returns whether work in the file was postponed.
    #[cfg(not(loom))]
    #[inline(always)]
    pub(super) fn is_postponed(&self) -> bool {
        self.is_postponed.load(Ordering::Relaxed)
    }

    /// Returns whether work in the file was postponed that no other thread has begun.
    #[cfg(not(loom))]
    pub(super) fn take_postponed(&self) -> bool {
        self.is_postponed.swap(false, Ordering::Relaxed)
    }

    /// Counts an event that could not be recorded.
    #[cold]
    pub(super) fn count_lost(&self) {
        self.n_lost.fetch_add(1, Ordering::Relaxed);
        counters::LOST.count_upper();
    }

    /// Changes how many events are kept; removes all events, up to `now`, if `erase` is set.
    #[cfg_attr(loom, allow(unused_variables, reason = "loom has no files"))]
    pub(super) fn reset(&self, capacity: usize, erase: bool, now: Ticks) {
        let _guard = Guard::enter();
        let mut state = lock(&self.state);
        if erase {
            let erased = TapeState::new(capacity);
            #[cfg(not(loom))]
            let erased = TapeState {
                in_file: state
                    .in_file
                    .as_ref()
                    .map(|in_file| Box::new(in_file.erased(self.order_limit_at(now)))),
                ..erased
            };
            *state = erased;
            self.n_lost.store(0, Ordering::Relaxed);
            self.generation.store(new_generation(), Ordering::Relaxed);
        } else if state.capacity != capacity {
            // Events that the smaller of the two capacities dropped must not reappear.
            let kept = state.cut(u64::MAX, state.capacity.min(capacity));
            state.horizon = kept.horizon_of_kept();
            state.capacity = capacity;
        }
    }

    /// Returns the highest order word of the events so far, those of the sources with and without a lock.
    #[cfg(not(loom))]
    fn order_limit_at(&self, now: Ticks) -> u64 {
        order_limit(Ticks(now.0.max(self.last.load(Ordering::Relaxed))))
    }

    /// Holds the tape's lock during a fork. In the child, the chunks of threads that are gone are left to those
    /// that exist, the forking thread's too: it opens another.
    #[cfg(not(loom))]
    pub(super) fn hold(self: &Arc<Tape>, held: &mut Held) {
        held.lock(
            self,
            |tape| &tape.state,
            |_, _| {},
            |tape, state| {
                for chunk in std::mem::take(&mut state.open) {
                    state.put(chunk);
                }
                state.leave_file();
                tape.generation.store(new_generation(), Ordering::Relaxed);
            },
        );
    }

    /// Writes events into a file from now on, or into memory. Every thread takes another chunk for its next event; the
    /// chunks that exist keep their events and get no more.
    #[cfg(not(loom))]
    pub(super) fn set_file(&self, in_file: Option<InFile>, now: Ticks) {
        let _guard = Guard::enter();
        let mut state = lock(&self.state);
        // The file lacks what was recorded before, and so do its lists of live blocks.
        let before = self.order_limit_at(now);
        let idle = std::mem::take(&mut state.idle);
        state.open.extend(idle);
        state.in_file = in_file.map(|mut in_file| {
            in_file.folded = before;
            Box::new(in_file)
        });
        self.generation.store(new_generation(), Ordering::Relaxed);
    }

    /// Begins anew, under the lock of the device's allocator, with a list of its segments at this moment, which comes later.
    /// `None` if there is no file.
    #[cfg(not(loom))]
    pub(super) fn cut_base(&self) -> Option<BaseCut> {
        let _guard = Guard::enter();
        let mut state = lock(&self.state);
        let until = order_limit(Ticks(self.last.load(Ordering::Relaxed)));
        let horizon = state.horizon;
        Some(state.in_file.as_mut()?.cut_base(until, horizon))
    }

    /// Writes the device's segments as they were at a cut into the tape's file.
    #[cfg(not(loom))]
    pub(super) fn begin_base(&self, segments: &[InventorySegment], cut: &BaseCut) {
        let _guard = Guard::enter();
        if let Some(in_file) = &mut lock(&self.state).in_file {
            in_file.begin_at(segments, cut);
        }
    }

    /// Returns the keeper's work, if there is any.
    #[cfg(not(loom))]
    pub(super) fn work(&self) -> Option<Work> {
        let mut state = lock(&self.state);
        let horizon = state.horizon;
        let in_file = state.in_file.as_mut()?;
        let (file, device, unsealed) = (in_file.file.clone(), in_file.device(), in_file.take_unsealed());
        let fold = in_file.begin_fold(horizon);
        Some(Work { file, device, unsealed, fold: fold.map(|fold| (fold, state.cut_to_fold())) })
    }

    /// Gives a device's part of the file what the keeper has made of its work.
    #[cfg(not(loom))]
    pub(super) fn end_work(&self, change: impl FnOnce(&mut InFile)) {
        if let Some(in_file) = &mut lock(&self.state).in_file {
            change(in_file);
        }
    }

    #[cfg(all(test, target_os = "linux", not(miri), not(loom)))]
    pub(super) fn while_locked<T>(&self, work: impl FnOnce() -> T) -> T {
        let _state = lock(&self.state);
        work()
    }

    /// Returns the number of events that were written since the last erasure and not dropped, whatever the capacity.
    pub(super) fn n_written(&self) -> usize {
        let _guard = Guard::enter();
        lock(&self.state).n_events()
    }

    /// Returns the events up to `now`. It copies only the list of chunks.
    ///
    /// Threads that record without a lock continue meanwhile. If one event follows from another (a free from
    /// its allocation), a cut never contains the later one alone. The later one is written after the
    /// earlier one; if the earlier one was not yet seen here, the later one has a time after `now` and is
    /// left out.
    pub(super) fn cut(&self, now: Ticks) -> Cut {
        let _guard = Guard::enter();
        let state = lock(&self.state);
        let until = now.0.max(self.last.load(Ordering::Relaxed));
        // Behind the caller's read of the clock, and before the first load of a length.
        fence(Ordering::SeqCst);
        let mut cut = state.cut(order_limit(Ticks(until)), state.capacity);
        cut.n_dropped += self.n_lost.load(Ordering::Relaxed);
        cut
    }
}

impl TapeState {
    fn new(capacity: usize) -> TapeState {
        TapeState {
            capacity,
            full: VecDeque::new(),
            open: Vec::new(),
            idle: Vec::new(),
            horizon: 0,
            n_dropped: 0,
            #[cfg(not(loom))]
            in_file: None,
        }
    }

    /// Forgets a file that belongs to the parent process, with the events in it.
    #[cfg(not(loom))]
    fn leave_file(&mut self) {
        if self.in_file.take().is_none() {
            return;
        }
        let n_before = self.n_events();
        self.full.retain(|full| !full.chunk.lines().is_in_file());
        self.open.retain(|chunk| !chunk.lines().is_in_file());
        self.idle.retain(|chunk| !chunk.lines().is_in_file());
        self.n_dropped += (n_before - self.n_events()) as u64;
    }

    fn n_events(&self) -> usize {
        let partly: usize = self.idle.iter().chain(&self.open).map(|chunk| chunk.len()).sum();
        self.full.len() * Chunk::N_ENTRIES + partly
    }

    /// Moves a chunk from the open ones to the full or idle ones. A chunk of an earlier generation is not
    /// among the open ones and is ignored.
    pub(super) fn close(&mut self, chunk: &Arc<Chunk>) {
        let place = chunk.place();
        if !self.open.get(place).is_some_and(|open| Arc::ptr_eq(open, chunk)) {
            return;
        }
        let chunk = self.open.swap_remove(place);
        if let Some(moved) = self.open.get(place) {
            moved.set_place(place);
        }
        self.put(chunk);
    }

    /// Puts a chunk that no thread writes among the full or idle ones; an empty one is dropped.
    fn put(&mut self, chunk: Arc<Chunk>) {
        match chunk.len() {
            0 => {}
            Chunk::N_ENTRIES => {
                let (first, last) = (order_word(&chunk, 0), order_word(&chunk, Chunk::N_ENTRIES - 1));
                #[cfg(not(loom))]
                if let Some(in_file) = &mut self.in_file {
                    in_file.fill(&chunk);
                }
                self.full.push_back(FullChunk { first, last, chunk });
            }
            _ => self.idle.push(chunk),
        }
    }

    /// Drops the oldest full chunks while the chunks that begin after them hold the capacity. Returns one of
    /// them, emptied, for reuse, unless readers still have all of them.
    pub(super) fn drop_oldest(&mut self) -> Option<Arc<Chunk>> {
        let mut spare = None;
        while (self.full.len().saturating_sub(1)).saturating_mul(Chunk::N_ENTRIES) >= self.capacity {
            let last = self.full[0].last;
            let n_behind = self.full.iter().filter(|full| full.first > last).count();
            if n_behind.saturating_mul(Chunk::N_ENTRIES) < self.capacity {
                break;
            }
            let Some(full) = self.full.pop_front() else { break };
            self.horizon = self.horizon.max(last);
            self.n_dropped += Chunk::N_ENTRIES as u64;
            #[cfg(not(loom))]
            if let Some(in_file) = &mut self.in_file {
                in_file.wait(full, self.capacity, self.horizon);
                continue;
            }
            let FullChunk { mut chunk, .. } = full;
            if let Some(alone) = Arc::get_mut(&mut chunk) {
                alone.clear();
                spare = Some(chunk);
            }
        }
        spare
    }

    /// Returns the events that were dropped and are not folded yet.
    #[cfg(not(loom))]
    fn cut_to_fold(&self) -> Cut {
        let mut cut = self.cut(self.horizon, usize::MAX);
        if let Some(in_file) = &self.in_file {
            cut.chunks.extend(in_file.waiting.iter().map(|full| (full.chunk.len(), full.chunk.clone())));
            cut.after = in_file.folded;
        }
        cut
    }

    /// Returns all chunks with their present lengths and the order words between which their events count.
    fn cut(&self, until: u64, capacity: usize) -> Cut {
        let full = self.full.iter().map(|full| &full.chunk);
        let all = full.chain(&self.idle).chain(&self.open);
        Cut {
            chunks: all.map(|chunk| (chunk.len(), chunk.clone())).collect(),
            after: self.horizon,
            until,
            capacity,
            n_dropped: self.n_dropped,
        }
    }
}
