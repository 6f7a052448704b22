//! The handle of a recorder: switches recording, opens scopes, and gives allocators their tracks.
#![forbid(unsafe_code)]

use std::{
    cell::Cell,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use super::{
    log::{Count, Log},
    opening,
    recording::Recording,
    scope::Scope,
    shared::Shared,
    tape::Tape,
    track::Track,
};
use crate::{
    process::{guard::Guard, memory, own_maps},
    stack::{self, FrameSource, stack_method},
    tape::Note,
};
use memreel_lockfree::{events::OFF, sync::lock};
use memreel_snapshot::words::{Action, DeviceId, Error, Inventory, ResidentReport, Result, UsageReport};

/// Records what allocators report. Clones share one recorder.
///
/// ```
/// use memreel::recorder::{Recording, Recorder};
/// use memreel::{Address, StreamId};
///
/// let recorder = Recorder::new();
/// recorder.record_history(&Recording::all());
/// let ledger = recorder.ledger(0);
/// ledger.segment_alloc(Address(0x10000), 4096, StreamId::DEFAULT)?;
/// ledger.alloc(Address(0x10000), 1000, StreamId::DEFAULT)?;
/// ledger.free(Address(0x10000))?;
/// assert_eq!(recorder.n_events(0), 4);
/// # Ok::<(), memreel::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Recorder {
    pub(super) shared: Arc<Shared>,
}

/// Counts of captured stacks, from [`Recorder::stack_counts`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct StackCounts {
    /// Distinct stacks in the recorder's table.
    pub n_stacks: usize,
    /// Captures that found the table full. Their events show one frame that says so.
    pub n_refused: u64,
}

impl Default for Recorder {
    fn default() -> Self {
        Recorder::new()
    }
}

impl Recorder {
    /// Creates a recorder that is off.
    #[must_use]
    pub fn new() -> Recorder {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        // Not left to the first capture, which may be inside an allocator.
        let _ = stack_method();
        // Here and where these tables grow, their memory is the recorder's own work: a process's heap that records it
        // where it is allocated and not where it is freed would have it for good.
        let guard = Guard::enter();
        // Relaxed: only each number's being another counts.
        let shared = Arc::new(Shared::new(NEXT.fetch_add(1, Ordering::Relaxed)));
        drop(guard);
        shared.survive_forks();
        Recorder { shared }
    }

    /// Switches recording on, off, or to other options (docs/snapshot-format.md 2.2, 2.6).
    ///
    /// Switching off erases what was recorded, so take the snapshot first. Switching to other options keeps
    /// it, unless [`Recording::clear_history`] is set.
    pub fn record_history(&self, history: &Recording) {
        let _guard = Guard::enter();
        let (capacity, erase, mode) = (history.capacity(), history.erases(), history.mode());
        let has_gaps = Cell::new(false);
        let prepare = || {
            has_gaps.set(!erase && self.has_gaps() || history.leaves_gaps());
            opening::choose(&self.shared, history, has_gaps.get()).map_or(OFF, |()| mode.word())
        };
        let reset = |tape: &Tape| tape.reset(capacity, erase, self.shared.clock.now());
        let rest = || {
            self.reset_annotations(capacity, erase);
            // Relaxed: see their fields.
            self.shared.min_size_bytes.store(history.min_size_bytes(), Ordering::Relaxed);
            self.shared.sample_bytes.store(history.sample_bytes(), Ordering::Relaxed);
            self.shared.has_gaps.store(has_gaps.get(), Ordering::Relaxed);
            self.shared.stacks.set_frames(history.frames());
        };
        self.shared.switch.set(history.clone(), mode.word(), prepare, reset, rest);
    }

    fn reset_annotations(&self, capacity: usize, erase: bool) {
        let mut annotations = lock(&self.shared.annotations);
        annotations.set_capacity(capacity);
        if erase {
            annotations.clear();
            drop(annotations);
            lock(&self.shared.usage).erase();
        }
    }

    /// Returns the current options.
    #[must_use]
    pub fn history(&self) -> Recording {
        lock(self.shared.switch.options()).clone()
    }

    /// Returns the track of a device, on which its allocator records events; see
    /// [`Track`] for what the allocator must do.
    #[must_use]
    pub fn track(&self, device: impl Into<DeviceId>) -> Track {
        let device = device.into();
        let _guard = Guard::enter();
        let file = || lock(&self.shared.file);
        let tape = self.shared.switch.tape(device, file, |history, file| {
            let tape = Tape::new(history.capacity());
            opening::begin(&self.shared, file.as_ref(), device, &tape);
            tape
        });
        Track::new(self.shared.clone(), device, tape)
    }

    /// Returns the file that events are recorded into: that of [`Recording::tape`], if it could be created.
    #[must_use]
    pub fn tape(&self) -> Option<std::path::PathBuf> {
        self.shared.tape_file().map(|file| file.path().to_owned())
    }

    /// Writes an inventory's segments and settings as they are now into the tape's file, if there is one: the file has
    /// the events from now on alone.
    pub(crate) fn begin_tape(&self, inventory: &dyn Inventory) {
        let Some(file) = self.shared.tape_file() else { return };
        let tape = self.shared.switch.known_tape(inventory.device());
        let Some(tape) = tape else { return };
        // A heap has no settings; what the file says of them is that of an allocator.
        let settings = inventory.has_segments().then(|| opening::settings_note(&inventory.settings()));
        let sampling =
            inventory.sample_bytes().map(|bytes| Note::Sampling { device: inventory.device().0, bytes });
        {
            // The heap may capture a stack for what a note allocates and frees, and name it in a note.
            let _guard = Guard::enter();
            settings.iter().chain(&sampling).for_each(|note| file.note(note));
        }
        let mut cut = None;
        let segments = inventory.segments_at(&mut |_| cut = tape.cut_base());
        if let Some(cut) = cut {
            tape.begin_base(&segments, &cut);
        }
    }

    /// Opens a scope on this thread: events of this thread carry its name until the returned value is dropped.
    ///
    /// Scopes nest: inside `step`, `forward` is recorded as `step/forward`. Scope names are interned for the
    /// lifetime of the recorder; avoid unbounded names such as `step 17`. The start and the end of the scope
    /// are annotations of device 0 in a snapshot ([`Recorder::scope_on`] for another device); while recording
    /// is off they are not recorded.
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

    /// Opens a scope whose annotations belong to `device`. Otherwise like [`Recorder::scope`].
    #[must_use = "the scope ends when this is dropped"]
    pub fn scope_on(&self, device: impl Into<DeviceId>, name: &str) -> Scope {
        Scope::open(self.shared.clone(), name, device.into())
    }

    /// Returns how many events are kept for each device.
    #[must_use]
    pub fn max_entries(&self) -> usize {
        lock(self.shared.switch.options()).capacity()
    }

    /// Returns how many events of a device are recorded now; 0 for a device without a track.
    #[must_use]
    pub fn n_events(&self, device: impl Into<DeviceId>) -> usize {
        self.count(device.into()).n_kept
    }

    /// Returns how many events of a device were dropped since its events were last erased; 0 for a device
    /// without a track.
    #[must_use]
    pub fn n_lost(&self, device: impl Into<DeviceId>) -> u64 {
        self.count(device.into()).n_lost
    }

    /// Counts the events of a device. A device without a track has none, and gets none by the question.
    fn count(&self, device: DeviceId) -> Count {
        // Chunks of several threads are sorted for it.
        let _guard = Guard::enter();
        let tape = self.shared.switch.known_tape(device);
        let track = tape.map(|tape| Track::new(self.shared.clone(), device, tape));
        track.map_or_else(Count::default, |track| Log::of(track.cut()).count())
    }

    /// Adds a source of further frames, such as those of an interpreter, to every stack captured from now on.
    ///
    /// Returns `false`, and changes nothing, if the recorder already has a source.
    pub fn set_frame_source(&self, source: Arc<dyn FrameSource>) -> bool {
        self.shared.stacks.set_source(source)
    }

    /// Records which device a number is: its name, and what distinguishes it from all others in every process, such as
    /// the UUID of a GPU.
    pub fn describe_device(&self, device: impl Into<DeviceId>, name: &str, uuid: &str) {
        let _guard = Guard::enter();
        lock(&self.shared.usage).describe(device.into(), name, uuid);
    }

    /// Records what a device reports of its memory now, while recording is on.
    ///
    /// Of a device, about 4,000 reports are kept: of a long series every second, fourth, and so on, always with the highest
    /// and the last. They are in [`Snapshot::usage`](crate::Snapshot::usage).
    /// No device is called and no allocator's lock is taken.
    ///
    /// ```
    /// use memreel::{integrate::UsageReport, recorder::{Recording, Recorder}, snapshot};
    ///
    /// let recorder = Recorder::new();
    /// recorder.record_history(&Recording::all());
    /// recorder.describe_device(0, "NVIDIA H200", "GPU-8f5c");
    /// let report = UsageReport { used_bytes: 3 << 30, total_bytes: 141 << 30, ..UsageReport::default() };
    /// recorder.report_usage(0, report);
    /// let seen = snapshot::collect(&recorder, [&recorder.ledger(0)], Default::default());
    /// assert_eq!(seen.usage()[0].reports[0].report, report);
    /// ```
    pub fn report_usage(&self, device: impl Into<DeviceId>, report: UsageReport) {
        let _guard = Guard::enter();
        if self.shared.mode().is_off() {
            return;
        }
        let mut usage = lock(&self.shared.usage);
        // Read under the lock, so that the reports are in the order of their times.
        usage.push(device.into(), (self.shared.clock.now(), report));
    }

    /// Looks at the resident memory of this process and records it as that of a device, its heap, while recording is on.
    /// `recorder_bytes` of it are from the program's allocator and not the program's.
    ///
    /// The kernel is asked, and no lock of an allocator is taken. Of a process sixteen reports are kept, always with the
    /// highest and the last. They are in [`Snapshot::resident`](crate::Snapshot::resident).
    ///
    /// # Errors
    /// [`Error::is_io`](crate::Error::is_io): the system does not say what is resident.
    ///
    /// ```
    /// use memreel::{recorder::{Recording, Recorder}, snapshot};
    ///
    /// let recorder = Recorder::new();
    /// recorder.record_history(&Recording::all());
    /// # if cfg!(target_os = "linux") {
    /// recorder.report_resident(0, 0)?;
    /// let seen = snapshot::collect(&recorder, [&recorder.ledger(0)], Default::default());
    /// assert!(seen.resident()[0].resident_bytes > 1 << 20);
    /// # }
    /// # Ok::<(), memreel::Error>(())
    /// ```
    pub fn report_resident(&self, device: impl Into<DeviceId>, recorder_bytes: u64) -> Result<()> {
        let _guard = Guard::enter();
        if self.shared.mode().is_off() {
            return Ok(());
        }
        let file = self.tape();
        let own_folders = file.iter().filter_map(|file| Some(file.parent()?.to_str()?.to_owned()));
        let known = memory::Known {
            stacks: stack::known_stacks(),
            own_folders: own_folders.collect(),
            own_maps: own_maps::ranges(),
        };
        let own = Path::new(memory::OWN);
        let seen = memory::look(own, &known).map_err(|error| Error::io("read", own, error))?;
        let report = ResidentReport { device: device.into(), recorder_bytes, ..seen };
        let mut usage = lock(&self.shared.usage);
        usage.push_resident(self.shared.clock.now(), report);
        Ok(())
    }

    /// Returns how many distinct stacks were captured, and how many captures found the table of stacks full.
    #[must_use]
    pub fn stack_counts(&self) -> StackCounts {
        let _guard = Guard::enter();
        StackCounts { n_stacks: self.shared.stacks.n_stacks(), n_refused: self.shared.stacks.n_refused() }
    }

    /// Returns whether a track is one of this recorder's.
    pub(crate) fn has(&self, track: &Track) -> bool {
        Arc::ptr_eq(&self.shared, &track.shared)
    }

    /// Returns whether events of this kind are recorded now.
    pub(crate) fn keeps(&self, action: Action) -> bool {
        let mode = self.shared.mode();
        !mode.is_off() && mode.keeps(action)
    }

    /// Returns whether options may have left out events that viewers need since the events were last erased.
    pub(super) fn has_gaps(&self) -> bool {
        // Relaxed: see its field.
        self.shared.has_gaps.load(Ordering::Relaxed)
    }

    /// Marks this thread's work as the recorder's own while the result lives: what is reported meanwhile is not
    /// recorded. Names are looked up under locks that a capture takes too, so the allocations of the look-up
    /// must not come back as events where the recorder is in the process's own allocator.
    #[must_use]
    pub(crate) fn own_work(&self) -> impl Sized {
        Guard::enter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counting_creates_no_tape() {
        let recorder = Recorder::new();
        recorder.record_history(&Recording::all());
        let _known = recorder.track(DeviceId(0));
        for device in (1..1000).map(DeviceId) {
            assert_eq!((recorder.n_events(device), recorder.n_lost(device)), (0, 0));
        }
        assert_eq!(lock(recorder.shared.switch.tapes()).len(), 1);
    }

    /// Tracks keep their recorder alive, so the recorder must not keep its tracks alive.
    #[test]
    fn a_recorder_is_dropped_with_its_last_track() {
        let recorder = Recorder::new();
        recorder.record_history(&Recording::all());
        let track = recorder.track(DeviceId(0));
        let shared = Arc::downgrade(&recorder.shared);
        drop(recorder);
        assert!(shared.upgrade().is_some(), "the track still records");
        drop(track);
        assert!(shared.upgrade().is_none());
    }
}
