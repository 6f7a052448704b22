//! The newest events of one device, whose chunks are in memory or in a part of a file.
#![forbid(unsafe_code)]

use std::{ops::Deref, sync::Arc};

use super::{
    clock::Ticks,
    in_file::{BaseCut, InFile, Work},
    keeper::Keeper,
    lines::{Chunk, Lines},
    log::Cut,
    new_place::NewPlace,
};
use crate::process::{counters, fork::Held, guard::Guard};
use memreel_lockfree::events::{self, FullChunk, Store, TapeState, order_limit, order_word};
use memreel_snapshot::words::InventorySegment;

/// The events of one device. What it allocates is the recorder's own.
#[derive(Debug)]
pub(super) struct Tape(events::Tape<InTape>);

/// The part of a file that new chunks are in; `None` while they are in memory.
#[derive(Debug, Default)]
pub(super) struct InTape(Option<Box<InFile>>);

/// What a ring had dropped when the chunk began whose first event has the order word `until`.
pub(crate) struct DroppedEvents {
    pub(crate) n_events: u64,
    pub(crate) until: u64,
}

/// Returns the events of these chunks, as they were read from a file. Of what was dropped, the chunks that waited in the file
/// count once.
pub(crate) fn past_cut(chunks: &[Arc<Chunk>], capacity: usize, dropped: &DroppedEvents, horizon: u64) -> Cut {
    let last = |chunk: &Chunk| order_word(chunk, Chunk::N_ENTRIES - 1);
    let is_before = |chunk: &&Arc<Chunk>| chunk.len() == Chunk::N_ENTRIES && last(chunk) < dropped.until;
    let mut as_filled: Vec<_> = chunks.iter().filter(is_before).collect();
    as_filled.sort_by_key(|chunk| last(chunk));
    let capacity = capacity.max(1);
    let mut ring = TapeState::<InTape>::new(capacity);
    for chunk in as_filled {
        ring.put(chunk.clone());
        ring.drop_oldest();
    }
    let n_dropped = dropped.n_events.saturating_sub(ring.n_dropped);
    Cut { capacity, n_dropped, ..Cut::whole(chunks, horizon) }
}

impl Deref for Tape {
    type Target = events::Tape<InTape>;

    #[inline(always)]
    fn deref(&self) -> &events::Tape<InTape> {
        &self.0
    }
}

impl Tape {
    pub(super) fn new(capacity: usize) -> Tape {
        Tape(events::Tape::new(capacity))
    }

    /// Counts an event that could not be recorded.
    #[cold]
    pub(super) fn count_lost(&self) {
        self.0.count_lost();
        counters::LOST.count_upper();
    }

    /// Changes how many events are kept; removes all events, up to `now`, if `erase` is set.
    pub(super) fn reset(&self, capacity: usize, erase: bool, now: Ticks) {
        let _guard = Guard::enter();
        self.0.reset(capacity, erase, now);
    }

    /// Holds the tape's lock during a fork. In the child, the chunks of threads that are gone are left to those
    /// that exist, the forking thread's too: it opens another.
    pub(super) fn hold(self: &Arc<Tape>, held: &mut Held) {
        held.lock(
            self,
            |tape| tape.mutex(),
            |_, _| {},
            |tape, state| {
                state.close_all();
                // A file belongs to the parent process, with the events in it.
                if state.store.0.take().is_some() {
                    state.retain(|chunk| !chunk.lines().is_in_file());
                }
                tape.begin_generation(state);
            },
        );
    }

    /// Writes events into a file from now on, or into memory. Every thread takes another chunk for its next event; the
    /// chunks that exist keep their events and get no more.
    pub(super) fn set_file(&self, in_file: Option<InFile>, now: Ticks) {
        let _guard = Guard::enter();
        self.change_store(|store| {
            // The file lacks what was recorded before, and so do its lists of live blocks.
            let before = order_limit(now.max(self.last_ticks()));
            store.0 = in_file.map(|mut in_file| {
                in_file.folded = before;
                Box::new(in_file)
            });
        });
    }

    /// Begins anew, under the lock of the device's allocator, with a list of its segments at this moment, which comes later.
    /// `None` if there is no file.
    pub(super) fn cut_base(&self) -> Option<BaseCut> {
        let _guard = Guard::enter();
        let mut state = self.lock();
        let (until, horizon) = (order_limit(self.last_ticks()), state.horizon);
        Some(state.store.0.as_mut()?.cut_base(until, horizon))
    }

    /// Writes the device's segments as they were at a cut into the tape's file.
    pub(super) fn begin_base(&self, segments: &[InventorySegment], cut: &BaseCut) {
        let _guard = Guard::enter();
        self.end_work(|in_file| in_file.begin_at(segments, cut));
    }

    /// Returns the keeper's work, if there is any.
    pub(super) fn work(&self) -> Option<Work> {
        let mut state = self.lock();
        let horizon = state.horizon;
        let in_file = state.store.0.as_mut()?;
        let (file, device, unsealed) = (in_file.file.clone(), in_file.device(), in_file.take_unsealed());
        let fold = in_file.begin_fold(horizon);
        Some(Work { file, device, unsealed, fold: fold.map(|fold| (fold, cut_to_fold(&state))) })
    }

    /// Gives a device's part of the file what the keeper has made of its work.
    pub(super) fn end_work(&self, change: impl FnOnce(&mut InFile)) {
        if let Some(in_file) = &mut self.lock().store.0 {
            change(in_file);
        }
    }

    /// Returns the number of events that were written since the last erasure and not dropped, whatever the capacity.
    pub(super) fn n_written(&self) -> usize {
        let _guard = Guard::enter();
        self.lock().n_events()
    }

    /// Returns the events up to `now`. It copies only the list of chunks.
    pub(super) fn cut(&self, now: Ticks) -> Cut {
        let _guard = Guard::enter();
        self.0.cut(now)
    }
}

/// Returns the events that were dropped and are not folded yet.
fn cut_to_fold(state: &TapeState<InTape>) -> Cut {
    let mut cut = state.cut(state.horizon, usize::MAX);
    if let Some(in_file) = &state.store.0 {
        cut.chunks.extend(in_file.waiting.iter().map(|full| (full.chunk.len(), full.chunk.clone())));
        cut.after = in_file.folded;
    }
    cut
}

impl Store for InTape {
    type Memory = Lines;
    type Place = NewPlace;
    /// The keeper of the tape's file, if there is work for it.
    type Due = Option<Arc<Keeper>>;

    fn erased(&self, until: u64) -> InTape {
        InTape(self.0.as_ref().map(|in_file| Box::new(in_file.erased(until))))
    }

    fn fill(&mut self, chunk: &Arc<Chunk>) {
        if let Some(in_file) = &mut self.0 {
            in_file.fill(chunk);
        }
    }

    fn keep(&mut self, dropped: FullChunk<Lines>, capacity: usize, horizon: u64) -> Option<FullChunk<Lines>> {
        let Some(in_file) = &mut self.0 else { return Some(dropped) };
        in_file.wait(dropped, capacity, horizon);
        None
    }

    fn place(&self, n_dropped: u64) -> NewPlace {
        NewPlace { file: self.0.as_ref().and_then(|in_file| in_file.place_of_chunk()), n_dropped }
    }

    /// Returns a chunk in memory if the part in the file ends or has ended meanwhile.
    fn admit<'c>(
        &mut self,
        new: Arc<Chunk>,
        others: impl Iterator<Item = &'c Arc<Chunk>>,
        until: impl FnOnce() -> u64,
    ) -> Arc<Chunk> {
        if let Some(in_file) = &mut self.0 {
            if !new.lines().is_in_file() {
                in_file.end(until(), others);
            } else if in_file.has_ended() {
                return Arc::default();
            }
        }
        new
    }

    fn take_due(&mut self) -> Option<Arc<Keeper>> {
        self.0.as_mut().and_then(|in_file| in_file.take_due())
    }
}
