//! What the clones of a recorder and its tracks share, and the order of its locks.
#![forbid(unsafe_code)]

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

use super::{
    clock::Clock,
    context::Contexts,
    keeper::Keeper,
    lines::Chunk,
    recording::{Mode, Recording},
    sample,
    scope_names::{Annotation, ScopeNames},
    tape::Tape,
    usage::Usage,
};
use crate::{
    process::{
        fork::{self, Held},
        until_end,
    },
    stack::{self, StackInterner},
    tape::TapeFile,
};
use memreel_lockfree::{
    events::{Ring, Switch, Tapes},
    stacks::Stacks,
    sync::lock,
};
use memreel_snapshot::words::DeviceId;

/// What the clones of a recorder and its tracks share.
///
/// # Lock order
///
/// A thread takes locks from left to right and may skip any:
///
/// ```text
/// allocator's lock → history → file → tapes → one tape's state
///                  → scopes | contexts | annotations | usage     (one of them, and no other after it)
/// ```
///
/// An allocator records events while it has its own lock. So the recorder never calls an allocator or an
/// inventory while it has one of its locks; the opposite order could deadlock. The locks here are held
/// briefly, without a call to the loader, to a symbol table or to code of the user. They do allocate: see
/// `guard.rs` for a recorder inside the process's own allocator. A fork holds all of them.
#[derive(Debug)]
pub(super) struct Shared {
    /// Unique among recorders; distinguishes their scopes on one thread.
    pub(super) number: u64,
    /// The mode, the options (`history` above), and the tapes, not the tracks: a track keeps this struct alive, so a list of
    /// tracks would be a cycle.
    pub(super) switch: Switch<Recording, DeviceId, Tape>,
    /// Filters; read only if the mode says that there are any. Relaxed: around a switch, an event may be filtered by the
    /// old number or the new one.
    pub(super) min_size_bytes: AtomicU64,
    pub(super) sample_bytes: AtomicU64,
    /// Whether options left out events that viewers need at any time since the events were last erased. It is
    /// set under the lock of the options. Relaxed: nothing else is read because of it.
    pub(super) has_gaps: AtomicBool,
    /// Whether nothing is recorded without the tape's file. Relaxed: as above.
    pub(super) is_on_tape_alone: AtomicBool,
    pub(super) clock: Clock,
    /// The file of the tape.
    pub(super) file: Mutex<Option<OpenFile>>,
    pub(super) stacks: StackInterner,
    pub(super) scopes: Mutex<ScopeNames>,
    pub(super) contexts: Mutex<Contexts>,
    pub(super) annotations: Mutex<Ring<Annotation>>,
    /// What devices report.
    pub(super) usage: Mutex<Usage>,
}

impl Shared {
    /// Creates the state of a recorder that is off.
    pub(super) fn new(number: u64) -> Shared {
        Shared {
            number,
            switch: Switch::off(Recording::off()),
            min_size_bytes: AtomicU64::new(0),
            sample_bytes: AtomicU64::new(0),
            has_gaps: AtomicBool::new(false),
            is_on_tape_alone: AtomicBool::new(false),
            clock: Clock::start(),
            file: Mutex::new(None),
            stacks: StackInterner::default(),
            scopes: Mutex::default(),
            contexts: Mutex::default(),
            annotations: Mutex::new(Ring::new(1)),
            usage: Mutex::default(),
        }
    }

    /// Connects the recorder to the process: a child of a fork finds its locks free, and a thread its code.
    pub(super) fn survive_forks(self: &Arc<Shared>) {
        until_end::stay_loaded();
        stack::survive_forks();
        fork::register(fork::Level::Recorder, self);
    }

    /// Returns the file of the tape, if there is one.
    pub(super) fn tape_file(&self) -> Option<Arc<TapeFile>> {
        lock(&self.file).as_ref().map(|open| open.file.clone())
    }

    /// Ends the recording if it got a chunk in memory and nothing reads what is there. Returns whether it goes on.
    pub(super) fn goes_on_with(&self, chunk: &Chunk) -> bool {
        if self.is_on_tape_alone.load(Ordering::Relaxed) && !chunk.lines().is_in_file() {
            self.switch.stop();
            return false;
        }
        true
    }

    #[inline(always)]
    pub(super) fn mode(&self) -> Mode {
        Mode::of(self.switch.mode())
    }

    /// Decides whether the filters exclude an allocation of `bytes` bytes.
    #[inline]
    pub(super) fn filters_out(&self, bytes: u64) -> bool {
        let sample_bytes = self.sample_bytes.load(Ordering::Relaxed);
        self.is_too_small(bytes) || (sample_bytes > 0 && !sample::is_kept(bytes, sample_bytes))
    }

    /// Returns whether an allocation of `bytes` bytes is below the least size.
    #[inline]
    pub(super) fn is_too_small(&self, bytes: u64) -> bool {
        bytes < self.min_size_bytes.load(Ordering::Relaxed)
    }
}

/// The file of a tape, and its keeper.
#[derive(Debug)]
pub(super) struct OpenFile {
    pub(super) file: Arc<TapeFile>,
    pub(super) keeper: Arc<Keeper>,
}

impl Drop for Shared {
    /// The file keeps what it has; the chunks that are dropped next do not leave it.
    fn drop(&mut self) {
        if let Some(open) = self.file.get_mut().unwrap_or_else(PoisonError::into_inner).take() {
            open.file.close();
            open.keeper.wake();
        }
    }
}

impl fork::Part<fork::Forking> for Shared {
    fn hold(self: Arc<Shared>, held: &mut Held) {
        held.lock(&self, |shared| shared.switch.options(), |_, _| {}, |_, _| {});
        // Before the tapes drop what they have of it.
        let leave = |_: &Shared, open: &mut Option<OpenFile>| {
            open.take().into_iter().for_each(|open| open.file.leave());
        };
        held.lock(&self, |shared| &shared.file, |_, _| {}, leave);
        let hold = |all: &Tapes<DeviceId, Tape>, held: &mut Held| {
            all.iter().for_each(|(_, tape)| tape.hold(held));
        };
        held.lock(&self, |shared| shared.switch.tapes(), hold, |_, _| {});
        held.lock(&self, |shared| &shared.scopes, |_, _| {}, |_, _| {});
        held.lock(&self, |shared| &shared.contexts, |_, _| {}, |_, _| {});
        held.lock(&self, |shared| &shared.annotations, |_, _| {}, |_, _| {});
        held.lock(&self, |shared| &shared.usage, |_, _| {}, |_, _| {});
        Stacks::hold(held, &self, |shared| shared.stacks.table());
    }
}
