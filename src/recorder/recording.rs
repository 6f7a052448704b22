//! What to record: PyTorch's options under PyTorch's names (docs/snapshot-format.md 2.1, 2.2).
#![forbid(unsafe_code)]

use std::{
    path::{Path, PathBuf},
    str::FromStr,
};

use crate::{stack::Frames, tape::RecordingNote};
use memreel_lockfree::events::OFF;
use memreel_snapshot::words::{Action, Error, Result};

/// Which events are recorded: PyTorch's `enabled`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Enabled {
    /// No events; switching to it erases what was recorded.
    Off,
    /// Only the latest event; live blocks have stacks.
    State,
    /// The newest events, up to [`Recording::max_entries`].
    All,
}

/// When stacks are captured: PyTorch's `context`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
pub enum Context {
    /// Never.
    None,
    /// At allocations, and shown with live blocks and segments only.
    State,
    /// At allocations, and shown with their events too; a free shows the stack of its allocation.
    Alloc,
    /// At allocations and at frees.
    All,
}

/// Which frames a stack has: PyTorch's `stacks`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum StackKind {
    /// The frames of compiled code, and those of a [`FrameSource`](crate::stack::FrameSource) if the recorder
    /// has one that joins them; [`PythonFrames`](../integrate/struct.PythonFrames.html) does not.
    Native,
    /// The frames of the recorder's [`FrameSource`](crate::stack::FrameSource) alone, such as
    /// [`PythonFrames`](../integrate/struct.PythonFrames.html); no native stack is walked.
    Python,
    /// Native frames and those of the recorder's source.
    All,
    /// No frames: no stack is captured, whatever [`Recording::context`] is.
    None,
}

/// The place where a stack may be captured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum CapturePoint {
    /// At the start of an allocation.
    Alloc,
    /// At the start of a free or of `empty_cache`.
    Free,
    /// At the start of a free of the process's heap.
    HeapFree,
}

/// The options of recording, passed to [`Recorder::record_history`](super::Recorder::record_history).
///
/// Defaults are those of `torch.cuda.memory._record_memory_history`, except for `max_entries`. Each option
/// is a method that takes and returns the value.
///
/// ```
/// use memreel::recorder::{Context, Recording};
///
/// let history = Recording::all().context(Context::Alloc).max_entries(10_000);
/// let the_same = Recording::all().context("alloc".parse()?).max_entries(10_000);
/// assert_eq!(history, the_same);
/// # Ok::<(), memreel::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Recording {
    enabled: Enabled,
    context: Context,
    has_heap_free_stacks: bool,
    stacks: StackKind,
    max_entries: usize,
    clear_history: bool,
    skip_actions: Vec<Action>,
    min_size_bytes: u64,
    sample_bytes: u64,
    tape: Option<PathBuf>,
    is_kept_elsewhere: bool,
    is_on_tape_alone: bool,
}

impl Default for Recording {
    fn default() -> Self {
        Recording::all()
    }
}

impl Recording {
    /// Records all events with all stacks, at most 1,000,000 events for each device.
    #[must_use]
    pub fn all() -> Recording {
        Recording {
            enabled: Enabled::All,
            context: Context::All,
            has_heap_free_stacks: true,
            stacks: StackKind::Native,
            max_entries: 1_000_000,
            clear_history: false,
            skip_actions: Vec::new(),
            min_size_bytes: 0,
            sample_bytes: 0,
            tape: None,
            is_kept_elsewhere: false,
            is_on_tape_alone: false,
        }
    }

    /// Records only the stacks of live blocks, for snapshots without a trace.
    #[must_use]
    pub fn state() -> Recording {
        Recording { enabled: Enabled::State, ..Recording::all() }
    }

    /// Records nothing; switching to it erases what was recorded.
    #[must_use]
    pub fn off() -> Recording {
        Recording { enabled: Enabled::Off, ..Recording::all() }
    }

    /// Returns whether anything is recorded: events, or the stacks of live blocks.
    ///
    /// ```
    /// use memreel::recorder::Recording;
    ///
    /// assert!(Recording::state().is_on() && !Recording::off().is_on());
    /// ```
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.enabled != Enabled::Off
    }

    /// Sets which events are recorded. Default: [`Enabled::All`].
    #[must_use]
    pub fn enabled(self, enabled: Enabled) -> Recording {
        Recording { enabled, ..self }
    }

    /// Sets when stacks are captured. Default: [`Context::All`].
    #[must_use]
    pub fn context(self, context: Context) -> Recording {
        Recording { context, has_heap_free_stacks: true, ..self }
    }

    /// Captures no stacks for frees of the process's heap, as [`Context::Alloc`] does for all devices: a free shows the
    /// stack of its allocation. A later [`Recording::context`] resets this.
    #[must_use]
    pub fn without_heap_free_stacks(self) -> Recording {
        Recording { has_heap_free_stacks: false, ..self }
    }

    /// Sets which frames a stack has. Default: [`StackKind::Native`].
    #[must_use]
    pub fn stacks(self, stacks: StackKind) -> Recording {
        Recording { stacks, ..self }
    }

    /// Sets how many events are kept for each device; 0 is taken as 1. An event takes 32 bytes.
    /// Default: 1,000,000. PyTorch's default is unbounded.
    ///
    /// When a device has more events, the oldest are dropped and counted
    /// ([`Recorder::n_lost`](super::Recorder::n_lost)).
    #[must_use]
    pub fn max_entries(self, max_entries: usize) -> Recording {
        Recording { max_entries, ..self }
    }

    /// Sets whether to erase what was recorded before. Default: no.
    #[must_use]
    pub fn clear_history(self, clear_history: bool) -> Recording {
        Recording { clear_history, ..self }
    }

    /// Sets the actions whose events are not recorded. Default: none.
    ///
    /// Without the events of segments, `alloc` or `free_completed` viewers cannot show the state history
    /// (docs/snapshot-format.md 3.5). A snapshot from a `Reel` therefore has them without frames, where they fit; the
    /// ring keeps its space for others.
    ///
    /// ```
    /// use memreel::{Action, recorder::Recording};
    ///
    /// let history = Recording::all().skip_actions([Action::Snapshot]);
    /// ```
    #[must_use]
    pub fn skip_actions(self, actions: impl IntoIterator<Item = Action>) -> Recording {
        Recording { skip_actions: actions.into_iter().collect(), ..self }
    }

    /// Sets the size in bytes below which allocations, and their frees, are not recorded and have no stack.
    /// Default: 0, all are recorded.
    ///
    /// The blocks themselves are still in the segments of a snapshot. A snapshot from a `Reel` has an `alloc` entry
    /// without frames for those in use at its end, so that viewers can undo its events.
    #[must_use]
    pub fn min_size(self, min_size_bytes: u64) -> Recording {
        Recording { min_size_bytes, ..self }
    }

    /// Samples allocations: on average one in every `bytes` allocated bytes is recorded, with its free.
    /// Default: 0, all are recorded.
    ///
    /// The probability that an allocation is recorded grows with its size, so that counts and sums can be
    /// estimated without bias ([`sample_weight`](super::sample_weight)). The settings in a snapshot state the
    /// interval.
    #[must_use]
    pub fn sample_every(self, bytes: u64) -> Recording {
        Recording { sample_bytes: bytes, ..self }
    }

    /// Records into a file that survives the process, however it ends. Default: in memory.
    ///
    /// An event is in the kernel's memory of the file when its record call returns, so SIGKILL, `abort` and a panic
    /// lose none; only a crash of the machine does. [`Recovered`](crate::Recovered) and the program's `recover` make a
    /// snapshot of the file. For each device, it takes 33 bytes for each of [`Recording::max_entries`] events, and some
    /// more for stacks; it grows in steps of 2 MiB. An existing file is renamed, with `.old` appended, because it may
    /// be from a run that crashed.
    ///
    /// If the file cannot be created, or cannot grow because the disk is full, recording goes on in memory and one line
    /// on standard error reports it; [`Recorder::tape`](super::Recorder::tape) returns whether there is a file. What
    /// was recorded before is not in it, except the segments and blocks of a [`Reel`](crate::Reel). A child of `fork`
    /// records in memory. Another program may delete the file, but must not make it shorter.
    ///
    /// ```
    /// use memreel::{Recovered, Reel, recorder::Recording};
    ///
    /// # let folder = tempfile::tempdir().unwrap();
    /// let path = folder.path().join("run.tape");
    /// let reel = Reel::builder().history(Recording::all().tape(&path)).build()?;
    /// let weights = reel.alloc(1 << 20)?;
    /// // As after a crash: the file has what is recorded so far.
    /// let recovered = Recovered::read(&path)?;
    /// assert_eq!(recovered.snapshot().device_traces[0].len(), 2);
    /// # drop(weights);
    /// # Ok::<(), memreel::Error>(())
    /// ```
    #[must_use]
    pub fn tape(self, path: impl Into<PathBuf>) -> Recording {
        Recording { tape: Some(path.into()), ..self }
    }

    /// Declares that another process keeps the tape, with a `TapeKeeper`: no thread is started for
    /// it here. If that process ends or does not follow, the thread that fills a chunk does the work.
    #[must_use]
    pub fn kept_elsewhere(self) -> Recording {
        Recording { is_kept_elsewhere: true, ..self }
    }

    /// Ends the recording where its tape cannot be created or cannot grow: without it, nothing would read what is recorded.
    /// Default: recording goes on in memory.
    ///
    /// ```
    /// use memreel::{DeviceId, Reel, recorder::Recording};
    ///
    /// let history = Recording::all().tape("/proc/no/such.tape").on_tape_alone();
    /// let reel = Reel::builder().history(history).build()?;
    /// let block = reel.alloc(1000)?;
    /// assert_eq!(reel.recorder().n_events(DeviceId(0)), 0);
    /// # drop(block);
    /// # Ok::<(), memreel::Error>(())
    /// ```
    #[must_use]
    pub fn on_tape_alone(self) -> Recording {
        Recording { is_on_tape_alone: true, ..self }
    }

    pub(super) fn is_on_tape_alone(&self) -> bool {
        self.is_on_tape_alone && self.tape_path().is_some()
    }

    pub(super) fn is_kept_elsewhere(&self) -> bool {
        self.is_kept_elsewhere
    }

    pub(super) fn tape_path(&self) -> Option<&Path> {
        self.tape.as_deref().filter(|_| self.enabled != Enabled::Off)
    }

    /// Returns the options as a note for a tape's file.
    pub(super) fn to_note(&self, has_gaps: bool) -> RecordingNote {
        RecordingNote {
            capacity: self.capacity() as u64,
            min_size_bytes: self.min_size_bytes,
            sample_bytes: self.sample_bytes,
            has_gaps,
            heap_frees_as_allocated: self.heap_frees_as_allocated(),
        }
    }

    /// Returns whether frees of the process's heap have the stacks of their allocations.
    pub(crate) fn heap_frees_as_allocated(&self) -> bool {
        let mode = self.mode();
        mode.keeps_stacks() && !mode.captures(CapturePoint::HeapFree)
    }

    /// Returns the options from a tape's note.
    pub(crate) fn of_note(note: &RecordingNote) -> Recording {
        Recording {
            max_entries: usize::try_from(note.capacity).unwrap_or(usize::MAX),
            min_size_bytes: note.min_size_bytes,
            sample_bytes: note.sample_bytes,
            has_heap_free_stacks: !note.heap_frees_as_allocated,
            ..Recording::all()
        }
    }

    /// Returns the mean sampling interval in bytes; 0 without sampling.
    pub(crate) fn sample_bytes(&self) -> u64 {
        self.sample_bytes
    }

    /// Returns the size in bytes below which allocations are not recorded.
    pub(crate) fn min_size_bytes(&self) -> u64 {
        self.min_size_bytes
    }

    /// Returns whether [`Recording::min_size`] or [`Recording::sample_every`] is set.
    pub(super) fn filters(&self) -> bool {
        self.min_size_bytes > 0 || self.sample_bytes > 0
    }

    /// Returns whether events are left out that viewers need (docs/snapshot-format.md 3.5).
    pub(crate) fn leaves_gaps(&self) -> bool {
        let is_needed = |action: &Action| {
            use Action::{Alloc, FreeCompleted, SegmentAlloc, SegmentFree, SegmentMap, SegmentUnmap};
            matches!(action, Alloc | FreeCompleted | SegmentAlloc | SegmentFree | SegmentMap | SegmentUnmap)
        };
        self.filters() || self.skip_actions.iter().any(is_needed)
    }

    /// Returns how many events are kept for each device.
    pub(crate) fn capacity(&self) -> usize {
        if self.enabled == Enabled::All { self.max_entries.max(1) } else { 1 }
    }

    /// Returns whether switching to these options erases what was recorded.
    pub(super) fn erases(&self) -> bool {
        self.clear_history || self.enabled == Enabled::Off
    }

    /// Returns which frames are captured.
    pub(super) fn frames(&self) -> Frames {
        match self.stacks {
            StackKind::Native | StackKind::None => Frames::Native,
            StackKind::Python => Frames::Source,
            StackKind::All => Frames::All,
        }
    }

    pub(super) fn mode(&self) -> Mode {
        if self.enabled == Enabled::Off {
            return Mode(OFF);
        }
        let context = if self.stacks == StackKind::None { Context::None } else { self.context };
        let skipped = self.skip_actions.iter().fold(0, |bits, action| bits | skip_bit(*action));
        let filters = if self.filters() { Mode::FILTERS } else { 0 };
        let heap_frees = if self.has_heap_free_stacks { Mode::HEAP_FREES } else { 0 };
        Mode(Mode::ON | context as u32 | skipped | filters | heap_frees)
    }
}

fn skip_bit(action: Action) -> u32 {
    1 << (8 + action as u32)
}

/// The options that the recording of an event needs, in one word; 0 is off.
///
/// ```text
///  bit   31 … 18   17 … 8           7 … 5   4                        3         2    1 0
///        unused    skipped actions  unused  stacks of heap's frees?  filters?  on?  context
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Mode(u32);

impl Mode {
    const CONTEXT: u32 = 0b11;
    const ON: u32 = 0b100;
    const FILTERS: u32 = 0b1000;
    const HEAP_FREES: u32 = 0b1_0000;

    /// Returns the mode of a word.
    #[inline(always)]
    pub(super) fn of(word: u32) -> Mode {
        Mode(word)
    }

    /// Returns its word.
    pub(super) fn word(self) -> u32 {
        self.0
    }

    #[inline(always)]
    pub(super) fn is_off(self) -> bool {
        self.0 == OFF
    }

    /// Returns whether events of `action` are recorded, if recording is on.
    #[inline(always)]
    pub(super) fn keeps(self, action: Action) -> bool {
        self.0 & skip_bit(action) == 0
    }

    /// Returns whether [`Recording::min_size`] or [`Recording::sample_every`] is set.
    #[inline(always)]
    pub(super) fn filters(self) -> bool {
        self.0 & Mode::FILTERS != 0
    }

    /// Returns whether recorded events have stacks (docs/caching-allocator.md 9.2).
    #[inline(always)]
    pub(super) fn keeps_stacks(self) -> bool {
        self.0 & Mode::CONTEXT >= Context::Alloc as u32
    }

    /// Returns whether a stack is captured at this point.
    #[inline]
    pub(super) fn captures(self, at: CapturePoint) -> bool {
        let least = match at {
            CapturePoint::Alloc => Context::State,
            CapturePoint::HeapFree if self.0 & Mode::HEAP_FREES == 0 => return false,
            CapturePoint::Free | CapturePoint::HeapFree => Context::All,
        };
        self.0 & Mode::CONTEXT >= least as u32
    }
}

impl FromStr for Enabled {
    type Err = Error;

    fn from_str(text: &str) -> Result<Enabled> {
        match text {
            "off" | "None" => Ok(Enabled::Off),
            "state" => Ok(Enabled::State),
            "all" => Ok(Enabled::All),
            _ => Err(Error::invalid_option("enabled", text, "\"off\", \"state\" or \"all\"")),
        }
    }
}

impl FromStr for Context {
    type Err = Error;

    fn from_str(text: &str) -> Result<Context> {
        match text {
            "none" | "None" => Ok(Context::None),
            "state" => Ok(Context::State),
            "alloc" => Ok(Context::Alloc),
            "all" => Ok(Context::All),
            _ => Err(Error::invalid_option("context", text, "\"none\", \"state\", \"alloc\" or \"all\"")),
        }
    }
}

impl FromStr for StackKind {
    type Err = Error;

    /// Parses PyTorch's names, `"python"` and `"all"`, and `"native"` and `"none"`.
    fn from_str(text: &str) -> Result<StackKind> {
        match text {
            "native" => Ok(StackKind::Native),
            "python" => Ok(StackKind::Python),
            "all" => Ok(StackKind::All),
            "none" | "None" => Ok(StackKind::None),
            _ => Err(Error::invalid_option("stacks", text, "\"python\", \"native\", \"all\" or \"none\"")),
        }
    }
}
