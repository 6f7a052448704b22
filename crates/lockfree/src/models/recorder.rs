//! A recorder for models: the switch, and tapes whose chunks are on the heap and hold four events.
#![forbid(unsafe_code)]

use std::{
    cell::RefCell,
    sync::{
        Arc, Weak,
        atomic::{AtomicU64, Ordering},
    },
};

use crate::{
    events::{
        self, ACTION_BITS, ByLock, Chunk, FullChunk, OFF, Opener, Ring, Store, Switch, TapeState, TickSource,
        WithLast, Words, Writer,
    },
    sync::{Mutex, MutexGuard, fence, lock},
    testing::OnHeap,
    ticks::{Clock, Ticks},
};

/// The actions of events.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Action {
    Alloc,
    FreeRequested,
    FreeCompleted,
    SegmentAlloc,
    SegmentFree,
    Oom,
}

const ACTIONS: [Action; 6] = [
    Action::Alloc,
    Action::FreeRequested,
    Action::FreeCompleted,
    Action::SegmentAlloc,
    Action::SegmentFree,
    Action::Oom,
];

/// An event of block `n`.
pub(super) type Event = (Action, u64);

const ON: u32 = 1;

/// Chunks in memory alone.
#[derive(Debug, Default)]
pub(super) struct InMemory;

impl Store for InMemory {
    type Memory = OnHeap;
    type Place = ();
    type Due = ();

    fn erased(&self, _: u64) -> InMemory {
        InMemory
    }

    fn fill(&mut self, _: &Arc<Chunk<OnHeap>>) {}

    fn keep(&mut self, dropped: FullChunk<OnHeap>, _: usize, _: u64) -> Option<FullChunk<OnHeap>> {
        Some(dropped)
    }

    fn place(&self, _: u64) {}

    fn admit<'c>(
        &mut self,
        new: Arc<Chunk<OnHeap>>,
        _: impl Iterator<Item = &'c Arc<Chunk<OnHeap>>>,
        _: impl FnOnce() -> u64,
    ) -> Arc<Chunk<OnHeap>> {
        new
    }

    fn take_due(&mut self) {}
}

type Tape = events::Tape<InMemory>;

/// A clock that every reading advances, as the processor's counter does for all threads.
#[derive(Debug, Default)]
struct Counter(AtomicU64);

impl Clock for Counter {
    fn now(&self) -> Ticks {
        // Relaxed, and not loom's: the processor's counter orders no memory. It advances by more than the ticks that two
        // events differ by at least.
        Ticks(self.0.fetch_add(10, Ordering::Relaxed))
    }

    fn now_after_loads(&self) -> Ticks {
        fence(Ordering::SeqCst);
        self.now()
    }
}

/// A recorder of one device, whose only option is the number of events that are kept.
#[derive(Debug)]
pub(super) struct Recorder {
    switch: Switch<usize, u32, Tape>,
    clock: Counter,
    annotations: Mutex<Ring<&'static str>>,
}

impl Recorder {
    /// Returns a recorder that is off.
    pub(super) fn off() -> Arc<Recorder> {
        let (switch, annotations) = (Switch::off(1), Mutex::new(Ring::new(1)));
        Arc::new(Recorder { switch, clock: Counter::default(), annotations })
    }

    /// Returns a recorder that keeps 50 events.
    pub(super) fn on() -> Arc<Recorder> {
        let recorder = Recorder::off();
        recorder.record(50);
        recorder
    }

    /// Switches recording on.
    pub(super) fn record(&self, capacity: usize) {
        self.set(capacity, ON);
    }

    /// Switches recording off, and erases everything.
    pub(super) fn erase(&self) {
        self.set(1, OFF);
    }

    fn set(&self, capacity: usize, mode: u32) {
        let reset = |tape: &Tape| tape.reset(capacity, mode == OFF, self.clock.now());
        let rest = || {
            let mut annotations = lock(&self.annotations);
            annotations.set_capacity(capacity);
            if mode == OFF {
                annotations.clear();
            }
        };
        self.switch.set(capacity, mode, || mode, reset, rest);
    }

    /// Notes the start or the end of a scope.
    pub(super) fn annotate(&self, stage: &'static str) {
        if !self.switch.is_off() {
            self.switch.unless_off(&self.annotations, |annotations| annotations.push(stage));
        }
    }

    pub(super) fn annotations(&self) -> Vec<&'static str> {
        lock(&self.annotations).iter().copied().collect()
    }

    pub(super) fn track(self: &Arc<Recorder>) -> Track {
        let tape = self.switch.tape(0, || (), |capacity, ()| Tape::new(*capacity));
        Track { recorder: self.clone(), tape }
    }
}

/// A thread's writer, which gives its chunk back when the thread ends.
#[derive(Debug)]
struct OwnWriter {
    writer: Writer<InMemory>,
    tape: Weak<Tape>,
}

impl Drop for OwnWriter {
    fn drop(&mut self) {
        if let Some(tape) = self.tape.upgrade() {
            self.writer.give_back(&tape, |state| Some(lock(state)));
        }
    }
}

loom::thread_local! {
    static WRITERS: RefCell<Vec<OwnWriter>> = RefCell::new(Vec::new());
}

impl Opener<InMemory> for Recorder {
    fn lock<'t>(&self, state: &'t Mutex<TapeState<InMemory>>) -> Option<MutexGuard<'t, TapeState<InMemory>>> {
        Some(lock(state))
    }

    fn is_on(&self) -> bool {
        !self.switch.is_off()
    }

    fn chunk(&self, (): ()) -> Arc<Chunk<OnHeap>> {
        Arc::default()
    }

    fn now(&self) -> Ticks {
        self.clock.now()
    }
}

/// What an allocator records on.
#[derive(Clone, Debug)]
pub(super) struct Track {
    recorder: Arc<Recorder>,
    tape: Arc<Tape>,
}

impl Track {
    /// Records an event under the caller's lock.
    pub(super) fn record(&self, action: Action, n: u64) {
        self.write(&mut ByLock, action, n);
    }

    /// Records a free that completes at once.
    pub(super) fn record_free(&self, n: u64) {
        self.write(&mut ByLock, Action::FreeRequested, n);
        self.write(&mut WithLast, Action::FreeCompleted, n);
    }

    /// Records an event unless recording is off.
    pub(super) fn write(&self, source: &mut impl TickSource, action: Action, n: u64) {
        if self.recorder.switch.is_off() {
            return;
        }
        WRITERS.with(|writers| {
            let mut writers = writers.borrow_mut();
            if !writers.iter().any(|own| own.writer.is_of(&self.tape)) {
                let Some(opened) = self.tape.next_chunk(None, &*self.recorder) else { return };
                writers.clear();
                writers.push(OwnWriter { writer: Writer::new(opened), tape: Arc::downgrade(&self.tape) });
            }
            let Some(OwnWriter { writer, .. }) = writers.last_mut() else { return };
            let words = |at: Ticks| [n * 4096, at.0 << ACTION_BITS | action as u64, n, n * 512];
            if !writer.push(&self.tape, &self.recorder.clock, source, words)
                && let Some(next) = self.tape.next_chunk(Some(writer.chunk()), &*self.recorder)
            {
                writer.go_on(next);
                assert!(writer.push(&self.tape, &self.recorder.clock, source, words));
            }
        });
    }

    /// Returns what is recorded up to now, and how many events are lost.
    pub(super) fn seen(&self) -> (Vec<Event>, u64) {
        let now = self.recorder.clock.now_after_loads();
        let events = self.tape.cut(now).read();
        (events.iter().map(event).collect(), events.n_lost)
    }

    /// Gives this thread's chunk back, which loom does after the thread was joined.
    pub(super) fn end_thread() {
        WRITERS.with(|writers| writers.borrow_mut().clear());
    }

    pub(super) fn n_chunks(&self) -> usize {
        self.tape.cut(self.recorder.clock.now()).chunks.len()
    }

    pub(super) fn events(&self) -> Vec<Event> {
        self.seen().0
    }
}

/// Decodes an event, which is whole.
fn event([address, order, n, bytes]: Words) -> Event {
    assert_eq!((address, bytes), (n * 4096, n * 512), "torn");
    (ACTIONS[order as usize % (1 << ACTION_BITS)], n)
}
