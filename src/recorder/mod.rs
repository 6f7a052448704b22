//! What happened, kept while it is wanted: on or off, how much, with which stacks.
//!
//! A recorder knows no device and no allocator, so it works around any. Each
//! device has a [`Track`] that its allocator records on while it holds its own
//! lock; that lock's order is the order of the trace. Recording never fails
//! upward: a full ring counts what it loses, a failed symbol is an address.
#![forbid(unsafe_code)]

mod clock;
mod guard;
mod history;
mod sample;
mod scope;
mod context;
mod chunk;
mod tape;
mod writer;
mod log;
mod tally;
mod ring;
mod track;
mod ledger;

use std::sync::{
    Arc, PoisonError,
    atomic::{AtomicU64, Ordering},
};

pub use history::{Context, Enabled, History, StackKind};
pub use ledger::Ledger;
pub use sample::sample_weight;
pub use scope::Scope;
pub use track::Track;

#[doc(hidden)]
pub use crate::stack::name_addresses;
pub use crate::stack::{FrameSource, SourceFrame, StackMethod, stack_method};

pub(crate) use context::ContextId;
pub(crate) use history::CapturePoint;
pub(crate) use log::{Cut, Entry, Key, Log};
pub(crate) use scope::{Annotation, ScopeId};
pub(crate) use tally::Tally;

use crate::{
    event::{DeviceId, StackId},
    stack::{StackInterner, StackParts},
    sync::{AtomicU64 as SyncU64, Mutex, MutexGuard},
};
use clock::Clock;
use context::Contexts;
use guard::Guard;
use history::{AtomicMode, Mode};
use ring::Ring;
use scope::ScopeNames;
use tape::Tape;

/// Records what allocators report. Clones are the same recorder.
///
/// ```
/// use memreel::recorder::{History, Recorder};
/// use memreel::{Address, DeviceId, StreamId};
///
/// let recorder = Recorder::new();
/// recorder.record_history(&History::all());
/// let ledger = recorder.ledger(DeviceId(0));
/// ledger.segment_alloc(Address(0x10000), 4096, StreamId::DEFAULT);
/// ledger.alloc(Address(0x10000), 1000, StreamId::DEFAULT);
/// ledger.free(Address(0x10000));
/// assert_eq!(recorder.n_events(DeviceId(0)), 4);
/// ```
#[derive(Clone, Debug)]
pub struct Recorder {
    shared: Arc<Shared>,
}

/// What the clones of a recorder and its tracks share.
///
/// Lock order: the history, then the list of tapes, then a tape's books; each table
/// here alone. Nothing here is ever
/// locked while an allocator is asked for anything.
#[derive(Debug)]
struct Shared {
    /// Tells this recorder's scopes from another's on the same thread.
    number: u64,
    mode: AtomicMode,
    /// What the mode's filters ask for; read only where it has any.
    min_size_bytes: SyncU64,
    sample_bytes: SyncU64,
    clock: Clock,
    history: Mutex<History>,
    /// What every track writes on. Not the tracks: they keep what is here alive.
    tapes: Mutex<Vec<(DeviceId, Arc<Tape>)>>,
    stacks: StackInterner,
    scopes: Mutex<ScopeNames>,
    contexts: Mutex<Contexts>,
    annotations: Mutex<Ring<Annotation>>,
}

impl Default for Recorder {
    fn default() -> Self {
        Recorder::new()
    }
}

impl Recorder {
    /// A recorder that is off.
    #[must_use]
    pub fn new() -> Recorder {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        // Not left to the first capture, which may be inside an allocator.
        let _ = stack_method();
        Recorder {
            shared: Arc::new(Shared {
                number: NEXT.fetch_add(1, Ordering::Relaxed),
                mode: AtomicMode::default(),
                min_size_bytes: SyncU64::new(0),
                sample_bytes: SyncU64::new(0),
                clock: Clock::start(),
                history: Mutex::new(History::off()),
                tapes: Mutex::default(),
                stacks: StackInterner::default(),
                scopes: Mutex::default(),
                contexts: Mutex::default(),
                annotations: Mutex::new(Ring::new(1)),
            }),
        }
    }

    /// Switches recording on, off, or to other options (snapshot-format.md 2.2, 2.6).
    ///
    /// Off erases what was recorded: take the snapshot first. On again keeps
    /// it, unless [`History::clear_history`] asks otherwise.
    pub fn record_history(&self, history: &History) {
        // The lock makes one switch at a time; recording does not take it.
        let mut current = lock(&self.shared.history);
        let capacity = history.capacity();
        let erase = history.erases();
        let mode = history.mode();
        // Off before the rings are erased, on after they have their room: an
        // event between the two steps is neither left behind nor squeezed out.
        if mode.is_off() {
            self.shared.mode.store(mode);
        }
        for (_, tape) in lock(&self.shared.tapes).iter() {
            tape.reset(capacity, erase);
        }
        self.reset_annotations(capacity, erase);
        self.shared.min_size_bytes.store(history.min_size_bytes(), Ordering::Relaxed);
        self.shared.sample_bytes.store(history.sample_bytes(), Ordering::Relaxed);
        self.shared.mode.store(mode);
        *current = history.clone();
    }

    fn reset_annotations(&self, capacity: usize, erase: bool) {
        let mut annotations = lock(&self.shared.annotations);
        annotations.set_capacity(capacity);
        if erase {
            annotations.clear();
        }
    }

    /// The options in force.
    #[must_use]
    pub fn history(&self) -> History {
        lock(&self.shared.history).clone()
    }

    /// The track of a device, on which its allocator records.
    #[must_use]
    pub fn track(&self, device: DeviceId) -> Track {
        // Held to the end: a switch in between would miss the new track, whose
        // ring would keep the old capacity.
        let history = lock(&self.shared.history);
        let mut tapes = lock(&self.shared.tapes);
        let known = tapes.iter().find(|(of, _)| *of == device).map(|(_, tape)| tape.clone());
        let tape = known.unwrap_or_else(|| {
            let tape = Arc::new(Tape::new(history.capacity()));
            tapes.push((device, tape.clone()));
            tape
        });
        Track::new(self.shared.clone(), device, tape)
    }

    /// Records for an allocator that keeps no inventory of its own.
    #[must_use]
    pub fn ledger(&self, device: DeviceId) -> Ledger {
        Ledger::new(self.track(device))
    }

    /// Opens a scope on this thread: what is allocated until the returned
    /// guard goes away carries its name.
    ///
    /// Scopes nest: inside `step`, `forward` is recorded as `step/forward`.
    /// The recorder keeps each name for its life, so number no names. A scope
    /// that is open while nothing is recorded leaves no annotation.
    ///
    /// ```
    /// # let recorder = memreel::recorder::Recorder::new();
    /// {
    ///     let _forward = recorder.scope("forward");
    ///     // allocations here are marked "forward"
    /// }
    /// ```
    #[must_use = "the scope ends when this is dropped"]
    pub fn scope(&self, name: &str) -> Scope {
        Scope::open(self.shared.clone(), name, DeviceId::default())
    }

    /// As [`Recorder::scope`], its annotation on another device than 0.
    #[must_use = "the scope ends when this is dropped"]
    pub fn scope_on(&self, device: DeviceId, name: &str) -> Scope {
        Scope::open(self.shared.clone(), name, device)
    }

    /// How many events each ring can hold.
    #[must_use]
    pub fn max_entries(&self) -> usize {
        lock(&self.shared.history).capacity()
    }

    /// How many events a device's ring holds.
    #[must_use]
    pub fn n_events(&self, device: DeviceId) -> usize {
        self.track(device).cut().count().n_kept
    }

    /// How many events fell out of a device's ring since it was last erased.
    #[must_use]
    pub fn n_lost(&self, device: DeviceId) -> u64 {
        self.track(device).cut().count().n_lost
    }

    /// Asks for further frames at each capture from now on, such as those of
    /// an interpreter. Whether it was the first: a recorder has one source.
    pub fn set_frame_source(&self, source: Arc<dyn FrameSource>) -> bool {
        self.shared.stacks.set_source(source)
    }

    /// How full the recorder's table of stacks is.
    #[must_use]
    pub fn n_stacks(&self) -> StackCounts {
        StackCounts { n_distinct: self.shared.stacks.n_stacks(), n_refused: self.shared.stacks.n_refused() }
    }

    /// The words of a stack, to be named.
    pub(crate) fn stack_parts(&self, stack: StackId) -> StackParts {
        self.shared.stacks.parts(stack)
    }

    /// Who names the source's words.
    pub(crate) fn frame_source(&self) -> Option<&Arc<dyn FrameSource>> {
        self.shared.stacks.source()
    }

    /// The scopes' beginnings and ends with their times, oldest first.
    pub(crate) fn annotations(&self) -> Vec<(Annotation, u64)> {
        let scale = self.shared.clock.scale();
        let annotations = lock(&self.shared.annotations);
        annotations.iter().map(|annotation| (*annotation, scale.micros(annotation.at))).collect()
    }

    /// What the numbers in logs that were cut before stand for.
    pub(crate) fn key(&self) -> Key {
        let _guard = Guard::enter();
        Key { contexts: lock(&self.shared.contexts).all(), scale: self.shared.clock.scale() }
    }

    /// Every scope path by its number.
    pub(crate) fn scope_paths(&self) -> Vec<Arc<str>> {
        lock(&self.shared.scopes).all()
    }
}

/// How full a recorder's table of stacks is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct StackCounts {
    /// Distinct stacks in the table.
    pub n_distinct: usize,
    /// Captures that found the table full; each shows one frame that says so.
    pub n_refused: u64,
}

impl Shared {
    #[inline(always)]
    fn mode(&self) -> Mode {
        self.mode.load()
    }

    /// Whether the filters leave out an allocation of that size.
    fn leaves_out(&self, bytes: u64) -> bool {
        let sample_bytes = self.sample_bytes.load(Ordering::Relaxed);
        bytes < self.min_size_bytes.load(Ordering::Relaxed)
            || (sample_bytes > 0 && !sample::is_kept(bytes, sample_bytes))
    }
}

/// A lock that a panicking thread let go is as good as any: every critical
/// section here leaves its data whole.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tracks keep their recorder, so the recorder must not keep its tracks.
    #[test]
    fn a_recorder_goes_with_its_last_track() {
        let recorder = Recorder::new();
        recorder.record_history(&History::all());
        let track = recorder.track(DeviceId(0));
        let shared = Arc::downgrade(&recorder.shared);
        drop(recorder);
        assert!(shared.upgrade().is_some(), "a track records on");
        drop(track);
        assert!(shared.upgrade().is_none(), "nobody is left");
    }
}
