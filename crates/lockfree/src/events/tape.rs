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

use std::{
    collections::VecDeque,
    sync::{Arc, atomic::Ordering},
};

use super::{
    chunk::{Chunk, FullChunk},
    cut::Cut,
    order::{order_limit, order_word},
    store::Store,
};
use crate::{
    sync::{AtomicBool, AtomicU64, Mutex, MutexGuard, fence, lock},
    ticks::Ticks,
};

/// The events of one device.
#[derive(Debug)]
#[repr(align(128))]
pub struct Tape<S: Store> {
    /// Changes whenever the tape is erased, and is unique among all tapes of the process. A thread compares
    /// it with the generation of its chunk to see whether that chunk still belongs to this tape. Stored under the lock of
    /// `state`. Relaxed: a thread that reads an old one without the lock writes to the chunk of that generation, whose
    /// events are dropped or kept as if they had been recorded before the change.
    generation: AtomicU64,
    /// The latest ticks given out under the allocator's lock. Relaxed: that lock orders it, also for a cut of the
    /// allocator's events; a cut without the lock also compares times.
    last: AtomicU64,
    /// Events that could not be recorded and that no chunk counts yet. What loses them may be a signal handler that interrupted
    /// the recording of another event, which cannot take a lock. Relaxed: a count, with which nothing else has to agree.
    pub(super) n_lost: AtomicU64,
    /// Whether work of the store became due while the recording thread had a lock of its own. Relaxed: the work itself is
    /// found under the lock of `state`.
    is_postponed: AtomicBool,
    state: Mutex<TapeState<S>>,
}

/// The chunks of a tape.
#[derive(Debug)]
pub struct TapeState<S: Store> {
    capacity: usize,
    /// In the order in which they were filled.
    full: VecDeque<FullChunk<S::Memory>>,
    /// Each is being written by one thread.
    open: Vec<Arc<Chunk<S::Memory>>>,
    /// Chunks whose threads ended before they were full; the next thread continues them.
    pub(super) idle: Vec<Arc<Chunk<S::Memory>>>,
    /// The order word of the newest dropped event. Events up to it that are still in chunks are not read
    /// either, so that the history has no gaps.
    pub horizon: u64,
    /// How many events were dropped.
    pub n_dropped: u64,
    /// Where new chunks are.
    pub store: S,
}

fn new_generation() -> u64 {
    static NEXT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(1);
    // Relaxed: only each number's being another counts.
    NEXT.fetch_add(1, Ordering::Relaxed)
}

impl<S: Store> Tape<S> {
    /// Creates a tape for `capacity` events.
    #[must_use]
    pub fn new(capacity: usize) -> Tape<S> {
        Tape {
            generation: AtomicU64::new(new_generation()),
            last: AtomicU64::new(0),
            n_lost: AtomicU64::new(0),
            is_postponed: AtomicBool::new(false),
            state: Mutex::new(TapeState::new(capacity.max(1))),
        }
    }

    /// Returns the generation; chunks of other generations do not belong to this tape.
    #[inline(always)]
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Relaxed)
    }

    /// Begins another generation, so that every thread takes another chunk for its next event.
    pub fn begin_generation(&self, _: &mut TapeState<S>) {
        self.generation.store(new_generation(), Ordering::Relaxed);
    }

    /// Returns ticks later than all ticks it returned before under the caller's lock: the sequence number of
    /// the device's events.
    ///
    /// Because the caller has a lock, a load and a store suffice; an atomic read-modify-write would cost half
    /// of an event. If two locks share a tape (an allocator's and a ledger's), events of the two are ordered
    /// only as precisely as their times.
    #[inline(always)]
    pub fn next_ticks(&self, now: Ticks) -> Ticks {
        let next = now.0.max(self.last.load(Ordering::Relaxed) + 1);
        self.last.store(next, Ordering::Relaxed);
        Ticks(next)
    }

    /// Returns the latest ticks that [`Tape::next_ticks`] returned.
    pub fn last_ticks(&self) -> Ticks {
        Ticks(self.last.load(Ordering::Relaxed))
    }

    /// Notes that work of the store is due, which the caller of the present event does when it has no lock.
    pub fn postpone(&self) {
        self.is_postponed.store(true, Ordering::Relaxed);
    }

    /// Returns whether work was postponed.
    #[inline(always)]
    pub fn is_postponed(&self) -> bool {
        self.is_postponed.load(Ordering::Relaxed)
    }

    /// Returns whether work was postponed that no other thread has begun.
    pub fn take_postponed(&self) -> bool {
        self.is_postponed.swap(false, Ordering::Relaxed)
    }

    /// Counts an event that could not be recorded.
    pub fn count_lost(&self) {
        self.n_lost.fetch_add(1, Ordering::Relaxed);
    }

    /// Locks the chunks.
    pub fn lock(&self) -> MutexGuard<'_, TapeState<S>> {
        lock(&self.state)
    }

    /// Returns the lock of the chunks.
    pub fn mutex(&self) -> &Mutex<TapeState<S>> {
        &self.state
    }

    /// Changes how many events are kept; removes all events, up to `now`, if `erase` is set.
    pub fn reset(&self, capacity: usize, erase: bool, now: Ticks) {
        let mut state = self.lock();
        if erase {
            let store = state.store.erased(order_limit(now.max(self.last_ticks())));
            *state = TapeState { store, ..TapeState::new(capacity) };
            self.n_lost.store(0, Ordering::Relaxed);
            self.begin_generation(&mut state);
        } else if state.capacity != capacity {
            // Events that the smaller of the two capacities dropped must not reappear.
            let kept = state.cut(u64::MAX, state.capacity.min(capacity));
            state.horizon = kept.horizon_of_kept();
            state.capacity = capacity;
        }
    }

    /// Changes where new chunks are: every thread takes another one for its next event, and the chunks that exist keep their
    /// events and get no more.
    pub fn change_store(&self, change: impl FnOnce(&mut S)) {
        let mut state = self.lock();
        let idle = std::mem::take(&mut state.idle);
        state.open.extend(idle);
        change(&mut state.store);
        self.begin_generation(&mut state);
    }

    /// Returns the events up to `now`. It copies only the list of chunks.
    ///
    /// Threads that record without a lock continue meanwhile. If one event follows from another (a free from
    /// its allocation), a cut never contains the later one alone. The later one is written after the
    /// earlier one; if the earlier one was not yet seen here, the later one has a time after `now` and is
    /// left out.
    pub fn cut(&self, now: Ticks) -> Cut<S::Memory> {
        let state = self.lock();
        let until = now.max(self.last_ticks());
        // Behind the caller's read of the clock, and before the first load of a length.
        fence(Ordering::SeqCst);
        let mut cut = state.cut(order_limit(until), state.capacity);
        cut.n_dropped += self.n_lost.load(Ordering::Relaxed);
        cut
    }
}

impl<S: Store> TapeState<S> {
    /// Returns a state without chunks.
    #[must_use]
    pub fn new(capacity: usize) -> TapeState<S> {
        TapeState {
            capacity,
            full: VecDeque::new(),
            open: Vec::new(),
            idle: Vec::new(),
            horizon: 0,
            n_dropped: 0,
            store: S::default(),
        }
    }

    /// Returns the number of events that were written since the last erasure and not dropped, whatever the capacity.
    pub fn n_events(&self) -> usize {
        let partly: usize = self.idle.iter().chain(&self.open).map(|chunk| chunk.len()).sum();
        self.full.len() * Chunk::<S::Memory>::N_ENTRIES + partly
    }

    /// Iterates over all chunks, with the store beside them.
    pub(super) fn parts(&mut self) -> (&mut S, impl Iterator<Item = &Arc<Chunk<S::Memory>>>) {
        let full = self.full.iter().map(|full| &full.chunk);
        (&mut self.store, full.chain(&self.idle).chain(&self.open))
    }

    /// Drops the chunks that are not to stay, and counts their events as dropped.
    pub fn retain(&mut self, stays: impl Fn(&Chunk<S::Memory>) -> bool) {
        let n_before = self.n_events();
        self.full.retain(|full| stays(&full.chunk));
        self.open.retain(|chunk| stays(chunk));
        self.idle.retain(|chunk| stays(chunk));
        self.n_dropped += (n_before - self.n_events()) as u64;
    }

    /// Adds a chunk to the open ones.
    pub(super) fn open(&mut self, chunk: &Arc<Chunk<S::Memory>>) {
        chunk.set_place(self.open.len());
        self.open.push(chunk.clone());
    }

    /// Moves all chunks from the open ones to the full or idle ones, because their threads do not exist.
    pub fn close_all(&mut self) {
        std::mem::take(&mut self.open).into_iter().for_each(|chunk| self.put(chunk));
    }

    /// Moves a chunk from the open ones to the full or idle ones. A chunk of an earlier generation is not
    /// among the open ones and is ignored.
    pub(super) fn close(&mut self, chunk: &Arc<Chunk<S::Memory>>) {
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
    pub fn put(&mut self, chunk: Arc<Chunk<S::Memory>>) {
        match chunk.len() {
            0 => {}
            len if len == Chunk::<S::Memory>::N_ENTRIES => {
                let (first, last) = (order_word(&chunk, 0), order_word(&chunk, len - 1));
                self.store.fill(&chunk);
                self.full.push_back(FullChunk { first, last, chunk });
            }
            _ => self.idle.push(chunk),
        }
    }

    /// Drops the oldest full chunks while the chunks that begin after them hold the capacity. Returns one of
    /// them, emptied, for reuse, unless readers still have all of them.
    pub fn drop_oldest(&mut self) -> Option<Arc<Chunk<S::Memory>>> {
        let (mut spare, n_entries) = (None, Chunk::<S::Memory>::N_ENTRIES);
        while (self.full.len().saturating_sub(1)).saturating_mul(n_entries) >= self.capacity {
            let last = self.full[0].last;
            let n_behind = self.full.iter().filter(|full| full.first > last).count();
            if n_behind.saturating_mul(n_entries) < self.capacity {
                break;
            }
            let Some(full) = self.full.pop_front() else { break };
            self.horizon = self.horizon.max(last);
            self.n_dropped += n_entries as u64;
            let dropped = self.store.keep(full, self.capacity, self.horizon);
            let Some(FullChunk { mut chunk, .. }) = dropped else { continue };
            if let Some(alone) = Arc::get_mut(&mut chunk) {
                alone.clear();
                spare = Some(chunk);
            }
        }
        spare
    }

    /// Returns all chunks with their present lengths and the order words between which their events count.
    pub fn cut(&self, until: u64, capacity: usize) -> Cut<S::Memory> {
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
