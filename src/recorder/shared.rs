//! What the clones of a recorder and its tracks share, and the order of its locks.
#![forbid(unsafe_code)]

#[cfg(not(loom))]
use std::sync::PoisonError;
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

#[cfg(not(loom))]
use super::keeper::Keeper;
use super::{
    annotation_ring::Ring,
    chunk::Chunk,
    clock::Clock,
    context::Contexts,
    recording::{AtomicMode, Mode, Recording},
    sample,
    scope_names::{Annotation, ScopeNames},
    tape::Tape,
    usage::Usage,
};
use crate::{
    process::sync::{AtomicU64, Mutex},
    stack::StackInterner,
};
#[cfg(not(loom))]
use crate::{
    process::{
        fork::{self, Held},
        sync::lock,
        until_end,
    },
    stack,
    tape::TapeFile,
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
    pub(super) mode: AtomicMode,
    /// Filters; read only if the mode says that there are any. Relaxed: around a switch, an event may be filtered by the
    /// old number or the new one.
    pub(super) min_size_bytes: AtomicU64,
    pub(super) sample_bytes: AtomicU64,
    /// Whether options left out events that viewers need at any time since the events were last erased. It is
    /// set under the lock of `history` and the protocol of tapes does not depend on it, so it is an atomic of
    /// std under loom too. Relaxed: nothing else is read because of it.
    pub(super) has_gaps: AtomicBool,
    /// Whether nothing is recorded without the tape's file. Relaxed: as above.
    #[cfg(not(loom))]
    pub(super) is_on_tape_alone: AtomicBool,
    pub(super) clock: Clock,
    pub(super) history: Mutex<Recording>,
    /// The file of the tape.
    #[cfg(not(loom))]
    pub(super) file: Mutex<Option<OpenFile>>,
    /// The tapes, not the tracks: a track keeps this struct alive, so a list of tracks would be a cycle.
    pub(super) tapes: Mutex<Vec<(DeviceId, Arc<Tape>)>>,
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
            mode: AtomicMode::default(),
            min_size_bytes: AtomicU64::new(0),
            sample_bytes: AtomicU64::new(0),
            has_gaps: AtomicBool::new(false),
            #[cfg(not(loom))]
            is_on_tape_alone: AtomicBool::new(false),
            clock: Clock::start(),
            history: Mutex::new(Recording::off()),
            #[cfg(not(loom))]
            file: Mutex::new(None),
            tapes: Mutex::default(),
            stacks: StackInterner::default(),
            scopes: Mutex::default(),
            contexts: Mutex::default(),
            annotations: Mutex::new(Ring::new(1)),
            usage: Mutex::default(),
        }
    }

    /// Connects the recorder to the process: a child of a fork finds its locks free, and a thread its code.
    #[cfg(not(loom))]
    pub(super) fn survive_forks(self: &Arc<Shared>) {
        until_end::stay_loaded();
        stack::survive_forks();
        fork::register(fork::Level::Recorder, self);
    }

    /// Returns the file of the tape, if there is one.
    #[cfg(not(loom))]
    pub(super) fn tape_file(&self) -> Option<Arc<TapeFile>> {
        lock(&self.file).as_ref().map(|open| open.file.clone())
    }

    /// Ends the recording if it got a chunk in memory and nothing reads what is there. Returns whether it goes on.
    #[cfg_attr(loom, allow(unused_variables, reason = "loom has no files"))]
    pub(super) fn goes_on_with(&self, chunk: &Chunk) -> bool {
        #[cfg(not(loom))]
        if self.is_on_tape_alone.load(Ordering::Relaxed) && !chunk.lines().is_in_file() {
            self.mode.store(Mode::default());
            return false;
        }
        true
    }

    #[inline(always)]
    pub(super) fn mode(&self) -> Mode {
        self.mode.load()
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
#[cfg(not(loom))]
#[derive(Debug)]
pub(super) struct OpenFile {
    pub(super) file: Arc<TapeFile>,
    pub(super) keeper: Arc<Keeper>,
}

#[cfg(not(loom))]
impl Drop for Shared {
    /// The file keeps what it has; the chunks that are dropped next do not leave it.
    fn drop(&mut self) {
        if let Some(open) = self.file.get_mut().unwrap_or_else(PoisonError::into_inner).take() {
            open.file.close();
            open.keeper.wake();
        }
    }
}

#[cfg(not(loom))]
impl fork::Part for Shared {
    fn hold(self: Arc<Shared>, held: &mut Held) {
        held.lock(&self, |shared| &shared.history, |_, _| {}, |_, _| {});
        // Before the tapes drop what they have of it.
        let leave = |_: &Shared, open: &mut Option<OpenFile>| {
            open.take().into_iter().for_each(|open| open.file.leave());
        };
        held.lock(&self, |shared| &shared.file, |_, _| {}, leave);
        let hold = |all: &Vec<(DeviceId, Arc<Tape>)>, held: &mut Held| {
            all.iter().for_each(|(_, tape)| tape.hold(held));
        };
        held.lock(&self, |shared| &shared.tapes, hold, |_, _| {});
        held.lock(&self, |shared| &shared.scopes, |_, _| {}, |_, _| {});
        held.lock(&self, |shared| &shared.contexts, |_, _| {}, |_, _| {});
        held.lock(&self, |shared| &shared.annotations, |_, _| {}, |_, _| {});
        held.lock(&self, |shared| &shared.usage, |_, _| {}, |_, _| {});
        held.lock(&self, |shared| shared.stacks.inserter().lock(), |_, _| {}, |_, _| {});
    }
}
