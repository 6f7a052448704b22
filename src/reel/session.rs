//! A session: a recorder, its triggers, and what the variable `MEMREEL` says about both.
//!
//! A [`Reel`](crate::Reel) is a session with caching allocators. A library that only reports to ledgers holds a session
//! alone.
#![forbid(unsafe_code)]

use std::{
    fmt,
    path::{Path, PathBuf},
};

use super::verdict;
use crate::{
    heap,
    process::notice,
    recorder::{Recorder, Recording},
    trigger::{self, Levels, OnFailure, Parsed, Sets, Source, Triggers},
};
use memreel_snapshot::words::{
    Bytes, DeviceId, Inventory, InventorySegment, OomVerdict, OutOfMemory, Refusal, Result,
};

/// A recorder with its triggers, for a library whose allocations are reported to ledgers. It follows the variable
/// `MEMREEL`, as a [`Reel`](crate::Reel) does.
///
/// ```
/// use memreel::{Address, StreamId, integrate::{Refusal, Session}, recorder::Recording, trigger::Levels};
///
/// let session = Session::open(&Recording::all(), |_path| Ok(()), Levels::default);
/// let ledger = session.recorder().ledger(1);
/// ledger.alloc(Address(0x1000), 3 << 30, StreamId::DEFAULT)?;
/// let refusal =
///     Refusal { bytes: 2 << 30, device_free_bytes: 1 << 30, device_total_bytes: 4 << 30, ..Refusal::default() };
/// ledger.oom(refusal);
/// let figures = session.refused(&ledger, refusal, &|_path| Ok(()));
/// assert_eq!(figures.allocated_bytes, 3 << 30);
/// assert!(figures.verdict.unwrap().text.starts_with("full: 3.00 GiB is in use and 2.00 GiB was requested"));
/// # Ok::<(), memreel::Error>(())
/// ```
pub struct Session {
    recorder: Recorder,
    /// What the environment asks for.
    asked: Option<&'static Parsed>,
    /// The path of the tape from the environment.
    tape: Option<PathBuf>,
    pub(super) triggers: Sets,
}

impl Session {
    pub(super) fn new() -> Session {
        let asked = trigger::environment();
        let tape = asked.and_then(|asked| asked.overlay.tape_of_reel());
        Session { recorder: Recorder::new(), asked, tape, triggers: Sets::new() }
    }

    /// Starts a recording with these options, over which those of the environment win. `save` writes the snapshots of
    /// the environment's triggers, and `levels` returns the bytes that they watch.
    ///
    /// Both functions are called on any thread, with none of memreel's locks held: `levels` 100 times a second if
    /// triggers watch bytes.
    pub fn open(
        history: &Recording,
        save: impl Fn(&Path) -> Result<()> + Send + Sync + 'static,
        levels: impl Fn() -> Levels + Send + Sync + 'static,
    ) -> Session {
        let session = Session::new();
        session.record_history(history);
        session.dump_as_asked(|| Source {
            save: Box::new(move |path| Some(save(path))),
            levels: Box::new(move || Some(levels())),
        });
        session
    }

    /// Returns the recorder of all devices.
    #[must_use]
    pub fn recorder(&self) -> &Recorder {
        &self.recorder
    }

    /// Switches recording on, off or to other options; see [`Recorder::record_history`]. Options in the variable
    /// `MEMREEL` win. Until the process uses a device, a tape shows it with the first one.
    pub fn record_history(&self, history: &Recording) {
        let _known = self.recorder.track(Unused.device());
        self.record(&self.history(history), &mut std::iter::once(&Unused as &dyn Inventory));
    }

    /// Returns the options under which a program's request is recorded.
    pub(super) fn history(&self, program: &Recording) -> Recording {
        match self.asked {
            Some(asked) => asked.overlay.over(program, self.tape.as_deref()),
            None => program.clone(),
        }
    }

    /// Returns the options for a program that did not switch recording on; `None` if it remains off.
    pub(super) fn history_alone(&self) -> Option<Recording> {
        self.asked?.overlay.alone(self.tape.as_deref())
    }

    /// Records with these options, and begins the tapes of the allocators and of the heap.
    pub(super) fn record(&self, history: &Recording, allocators: &mut dyn Iterator<Item = &dyn Inventory>) {
        self.recorder.record_history(history);
        let of_heap = heap::inventory_of(&self.recorder);
        allocators.chain(of_heap).for_each(|inventory| self.recorder.begin_tape(inventory));
    }

    /// Activates triggers. The source must not keep alive what owns this session.
    pub(super) fn dump_on(&self, triggers: &Triggers, source: Source) -> Result<()> {
        let _own = self.recorder.own_work();
        self.triggers.add(trigger::arm(triggers, source)?);
        Ok(())
    }

    /// Activates the triggers of the environment, if it has any. An error is one line on standard error.
    pub(super) fn dump_as_asked(&self, source: impl FnOnce() -> Source) {
        let Some(triggers) = self.asked.and_then(|asked| asked.triggers.as_ref()) else { return };
        if let Err(error) = self.dump_on(triggers, source()) {
            notice::print(&format!("MEMREEL: {error}"));
        }
    }

    /// Finds out why another allocator refused a request, and writes the snapshots that are due at a failed request,
    /// with `save`. Returns the figures, with the verdict.
    ///
    /// Report the refusal first (`Ledger::oom`). `inventory` is the allocator, which is
    /// inspected; hold none of its locks. Of requests that write no snapshot, one per second is explained.
    pub fn refused(
        &self,
        inventory: &dyn Inventory,
        refusal: Refusal,
        save: &dyn Fn(&Path) -> Result<()>,
    ) -> OutOfMemory {
        let mut seen = Seen::default();
        inventory.inspect(&mut |segments| seen = Seen::of(segments));
        let mut figures = OutOfMemory::new(inventory.device());
        figures.requested_bytes = refusal.bytes;
        figures.rounded_bytes = refusal.bytes;
        figures.segment_bytes = refusal.bytes;
        figures.stream = refusal.stream;
        figures.device_total_bytes = refusal.device_total_bytes;
        figures.device_free_bytes = refusal.device_free_bytes;
        figures.allocated_bytes = seen.allocated_bytes;
        figures.reserved_bytes = seen.reserved_bytes;
        let explain =
            |figures: &OutOfMemory| verdict::verdict(&self.recorder, inventory, seen.n_blocks, figures);
        self.failed(&mut figures, save, &explain);
        figures
    }

    /// Adds the verdict and the snapshots of a failed request to its figures.
    pub(super) fn failed(
        &self,
        figures: &mut OutOfMemory,
        save: &dyn Fn(&Path) -> Result<()>,
        explain: &dyn Fn(&OutOfMemory) -> Option<OomVerdict>,
    ) {
        self.triggers.failed(figures, &OnFailure { save, explain });
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("recorder", &self.recorder).finish_non_exhaustive()
    }
}

/// The first device, before anything is allocated.
struct Unused;

impl Inventory for Unused {
    fn device(&self) -> DeviceId {
        DeviceId(0)
    }

    fn inspect(&self, look: &mut dyn FnMut(&[InventorySegment])) {
        look(&[]);
    }
}

/// The result of an inspection.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    allocated_bytes: u64,
    reserved_bytes: u64,
    /// The number of blocks and segments.
    n_blocks: usize,
}

impl Seen {
    fn of(segments: &[InventorySegment]) -> Seen {
        Seen {
            allocated_bytes: segments.iter().map(InventorySegment::active_bytes).sum::<Bytes>().0,
            reserved_bytes: segments.iter().map(|segment| segment.size_bytes).sum::<Bytes>().0,
            n_blocks: segments.iter().map(|segment| segment.blocks.len() + 1).sum(),
        }
    }
}
