//! A reel: a session with a caching allocator for each device.
//!
//! The file is long because users start here: half of it is documentation.
#![forbid(unsafe_code)]

pub mod integrate;
pub(crate) mod process;
pub(crate) mod follower;
pub(crate) mod owned;
mod session;
mod verdict;

use std::{
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
};

use crate::{
    allocator::{Allocation, CachingAllocator, Settings},
    collect::{Completed, Dialect, TapeSnapshot, collect_lazily},
    device::{Device, Host},
    heap,
    recorder::{Recorder, Recording, Scope},
    trigger::{self, Levels, OomFiles, Source, Triggers},
};
use memreel_snapshot::{
    model::Snapshot,
    pickle,
    words::{DeviceId, Error, Inventory, OutOfMemory, Result, StreamId},
};
use session::Session;

/// A recorder and one caching allocator for each device. Clones share one reel.
///
/// A reel is the usual entry to memreel: it allocates, records and takes snapshots. The functions at the root
/// of the crate, such as [`record_history`](crate::record_history), use one reel for the whole
/// process; build your own for several devices, for limits or for simulated memory.
///
/// # The environment
///
/// Each reel follows the variable `MEMREEL`, which makes a program that is already built record and write snapshots:
/// `MEMREEL=all,dump=oom+exit`. The options of recording that it names win over the program's each time the program
/// switches recording on; a program that switches recording off switches it off. An invalid value prints one line on
/// standard error and has no other effect. `docs/triggers.md` has the grammar.
///
/// # Forks
///
/// A child of `fork` can use every reel, ledger and track of its parent, whatever other threads were doing at the fork.
/// It has the parent's blocks, which remain live until they are freed in the child, and the history up to the fork,
/// which it continues on its own. Blocks whose handles belong to threads that do not exist in the child are never freed
/// there. A GPU cannot be used in a child of the process that opened it: CUDA forbids it, and requests that need the
/// driver fail with an error. A fork waits until other threads have left memreel, usually for microseconds and at most
/// for two seconds. After a fork in a signal handler that interrupted memreel itself, the child can only run another
/// program.
///
/// ```
/// use memreel::{Reel, recorder::Recording};
///
/// let reel = Reel::builder().history(Recording::all()).build()?;
/// let weights = reel.alloc(4_000_000)?;
/// let snapshot = reel.snapshot();
/// assert_eq!(snapshot.device_traces[0].len(), 2, "a segment and a block were allocated");
/// # drop(weights);
/// # Ok::<(), memreel::Error>(())
/// ```
#[derive(Clone)]
pub struct Reel {
    shared: Arc<Shared>,
}

struct Shared {
    session: Session,
    allocators: Vec<CachingAllocator>,
    dialect: Dialect,
    dump_with: Option<Box<DumpWith>>,
}

/// Writes a snapshot to a path.
type DumpWith = dyn Fn(&Path) -> Result<()> + Send + Sync;

/// Creates the allocator of a device, whose number and recorder are known only at [`Builder::build`].
type MakeAllocator = dyn FnOnce(&Recorder, DeviceId, Settings) -> CachingAllocator;

/// Builds a [`Reel`], from [`Reel::builder`].
///
/// ```
/// use memreel::{Reel, allocator::Settings, device::{Host, Limit, Simulated}, recorder::Recording};
///
/// let reel = Reel::builder()
///     .device(Limit::new(Host::new(), 64 << 20))
///     .device(Simulated::new(80 << 30))
///     .history(Recording::all())
///     .build()?;
/// let on_the_second = reel.allocator(1)?.alloc(1 << 30, memreel::StreamId::DEFAULT)?;
/// # drop(on_the_second);
/// # Ok::<(), memreel::Error>(())
/// ```
#[derive(Default)]
#[must_use = "a builder does nothing until `build`"]
pub struct Builder {
    devices: Vec<Box<MakeAllocator>>,
    history: Option<Recording>,
    save_on_oom: Option<PathBuf>,
    dump_on: Vec<Triggers>,
    dump_with: Option<Box<DumpWith>>,
    settings: Settings,
    dialect: Dialect,
}

impl Reel {
    /// Returns a builder: without further calls, the host is device 0 and recording is off.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// Allocates a block of `bytes` bytes on device 0, for the default stream. Dropping the block frees it.
    ///
    /// # Errors
    /// The errors of [`CachingAllocator::alloc`].
    pub fn alloc(&self, bytes: u64) -> Result<Allocation> {
        self.shared.allocators[0].alloc(bytes, StreamId::DEFAULT)
    }

    /// Returns the allocator of a device.
    ///
    /// # Errors
    /// [`Error::is_misuse`] if the reel has no such device.
    pub fn allocator(&self, device: impl Into<DeviceId>) -> Result<&CachingAllocator> {
        let device = device.into();
        device.index().and_then(|index| self.shared.allocators.get(index)).ok_or_else(|| {
            Error::misuse(format!(
                "there is no device {device}: this reel has {}",
                self.shared.allocators.len()
            ))
        })
    }

    /// Returns the typed interface to a GPU's memory.
    ///
    /// # Errors
    /// [`Error::is_misuse`] if the reel has no such device, or if it is not a GPU.
    #[cfg(feature = "cuda")]
    pub fn cuda(&self, device: impl Into<DeviceId>) -> Result<crate::typed::cuda::Memory> {
        crate::typed::cuda::Memory::new(self.allocator(device)?)
    }

    /// Returns the allocators of all devices, by device number.
    #[must_use]
    pub fn allocators(&self) -> &[CachingAllocator] {
        &self.shared.allocators
    }

    /// Returns the recorder of all devices.
    #[must_use]
    pub fn recorder(&self) -> &Recorder {
        self.shared.session.recorder()
    }

    /// Switches recording on, off or to other options; see [`Recorder::record_history`]. Options in the variable
    /// `MEMREEL` win.
    pub fn record_history(&self, history: &Recording) {
        trigger::revive();
        self.shared.record(&self.shared.session.history(history));
    }

    /// Opens a scope on this thread: its events carry `name`. See [`Recorder::scope`].
    #[must_use = "the scope ends when this is dropped"]
    pub fn scope(&self, name: &str) -> Scope {
        self.recorder().scope(name)
    }

    /// Returns a snapshot of all devices: segments, blocks and the recorded events.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        Completed::new(self.shared.recorded()).into_snapshot()
    }

    /// Writes a snapshot to a file that <https://pytorch.org/memory_viz> opens.
    ///
    /// The file is written completely or not at all. Events are written directly from the recorder, so this
    /// takes less memory than [`Reel::snapshot`].
    ///
    /// # Errors
    /// [`Error::is_io`]; an existing file at `path` is then unchanged.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        pickle::save(&Completed::new(self.shared.recorded()), path.as_ref())
    }

    /// Writes a snapshot when a request fails, before the request's error is returned.
    ///
    /// The first failure writes the file, and later ones keep it, because the first is often the most informative. With
    /// `{n}` in the path, every failure writes its own file, and `{n}` is the number of the failure, counted from 0.
    /// `{pid}` is the PID, so that the ranks of a run do not write the same file; `{rank}` and `{host}` are those of
    /// [`Triggers`]. A file from an earlier run is replaced; [`Triggers::oom`] never replaces one.
    ///
    /// The reason is written next to each file, as text and as JSON (`oom.verdict.txt`, `oom.verdict.json`). The error
    /// names the file, or the reason why it could not be written; failing to write it causes no other error, and the
    /// next failure tries again. Called with two paths, it writes both files. While recording is off the file shows
    /// blocks without their stacks.
    ///
    /// ```
    /// use memreel::{Reel, device::Simulated, recorder::Recording};
    ///
    /// # let folder = tempfile::tempdir().unwrap();
    /// let reel = Reel::builder().device(Simulated::new(1 << 30)).history(Recording::all()).build()?;
    /// reel.save_on_oom(folder.path().join("oom-{n}.pickle"));
    /// for number in 0..2 {
    ///     let error = reel.alloc(2 << 30).unwrap_err();
    ///     let path = error.out_of_memory().unwrap().snapshot.clone().unwrap();
    ///     assert!(path.ends_with(format!("oom-{number}.pickle")));
    /// }
    /// # Ok::<(), memreel::Error>(())
    /// ```
    pub fn save_on_oom(&self, path: impl Into<PathBuf>) {
        self.shared.session.triggers.add_oom_files(OomFiles::of(path.into()));
    }

    /// Writes snapshots automatically: at a failed request, a signal, the exit, a panic, a time or a peak. See
    /// [`Triggers`] for the moments and the files.
    ///
    /// The triggers are in force until the last handle of the reel is dropped. Several calls add up; each writes its
    /// own files. A snapshot that cannot be written prints one line on standard error, is counted in the settings of
    /// later snapshots (`memreel_dumps_failed`) and has no other effect.
    ///
    /// ```
    /// use memreel::{Reel, recorder::Recording, trigger::Triggers};
    ///
    /// # let folder = tempfile::tempdir().unwrap();
    /// let reel = Reel::builder().history(Recording::all()).build()?;
    /// reel.dump_on(&Triggers::to(folder.path().join("end.pickle")).exit())?;
    /// let block = reel.alloc(1000)?;
    /// drop(reel);
    /// assert!(folder.path().join("end.pickle").exists());
    /// # drop(block);
    /// # Ok::<(), memreel::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::is_invalid_option`] for an unknown placeholder in the path and for triggers that can never fire;
    /// [`Error::is_io`] if a signal handler cannot be installed or a thread cannot be started.
    pub fn dump_on(&self, triggers: &Triggers) -> Result<()> {
        self.shared.session.dump_on(triggers, source(&self.shared))
    }

    /// Returns all unused segments to their devices.
    ///
    /// # Errors
    /// The errors of [`CachingAllocator::empty_cache`].
    pub fn empty_cache(&self) -> Result<()> {
        self.shared.allocators.iter().try_for_each(CachingAllocator::empty_cache)
    }
}

/// Returns what triggers need of a reel, without keeping it alive.
fn source(reel: &Arc<Shared>) -> Source {
    let (saved, watched) = (Arc::downgrade(reel), Arc::downgrade(reel));
    Source {
        save: Box::new(move |path| saved.upgrade().map(|reel| reel.dump(path))),
        levels: Box::new(move || watched.upgrade().map(|reel| reel.levels())),
    }
}

/// Reports the failed requests of its allocators to the reel, without keeping it alive.
fn watch(reel: &Arc<Shared>) {
    for (at, allocator) in reel.allocators.iter().enumerate() {
        let reel = Arc::downgrade(reel);
        allocator.on_oom(move |figures| {
            if let Some(reel) = reel.upgrade() {
                reel.failed(&reel.allocators[at], figures);
            }
        });
    }
}

impl Shared {
    fn record(&self, history: &Recording) {
        self.session.record(history, &mut self.inventories());
    }

    fn inventories(&self) -> impl Iterator<Item = &dyn Inventory> {
        self.allocators.iter().map(|allocator| allocator as &dyn Inventory)
    }

    /// Writes a snapshot that a trigger asks for.
    fn dump(&self, path: &Path) -> Result<()> {
        match &self.dump_with {
            Some(dump) => dump(path),
            None => pickle::save(&Completed::new(self.recorded()), path),
        }
    }

    /// Adds the verdict and the snapshots of a failed request to its figures.
    fn failed(&self, allocator: &CachingAllocator, figures: &mut OutOfMemory) {
        let explain = |figures: &OutOfMemory| {
            let stats = allocator.stats();
            let n_blocks = [stats.active, stats.inactive_split, stats.segment].map(|stat| stat.all.current);
            let n_blocks = n_blocks.iter().map(|n| usize::try_from(*n).unwrap_or(0)).sum();
            verdict::verdict(self.session.recorder(), allocator, n_blocks, figures)
        };
        self.session.failed(figures, &|path| self.dump(path), &explain);
    }

    /// Returns the bytes that triggers watch.
    fn levels(&self) -> Levels {
        let all = self.allocators.iter().map(|allocator| allocator.stats().allocated_bytes.all);
        all.fold(Levels::default(), |levels, bytes| Levels {
            allocated_bytes: levels.allocated_bytes.saturating_add_signed(bytes.allocated),
            peak_bytes: levels.peak_bytes.max(bytes.peak.max(0).cast_unsigned()),
        })
    }

    /// Returns whether a snapshot would be empty.
    fn is_bare(&self) -> bool {
        self.allocators.iter().all(|allocator| {
            allocator.memory_reserved() == 0 && self.session.recorder().n_events(allocator.device_id()) == 0
        })
    }

    fn recorded(&self) -> TapeSnapshot {
        trigger::revive();
        let recorder = self.session.recorder();
        collect_lazily(recorder, self.inventories().chain(heap::inventory_of(recorder)), self.dialect)
    }
}

impl Drop for Shared {
    /// Writes the snapshot of the exit, when this reel will already be gone.
    fn drop(&mut self) {
        if self.session.triggers.is_on_exit() && !self.is_bare() {
            self.session.triggers.dump_at_drop(&|path| self.dump(path));
        }
    }
}

impl fmt::Debug for Reel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reel").field("allocators", &self.shared.allocators).finish_non_exhaustive()
    }
}

impl Builder {
    /// Adds a device; its number is the number of devices added before. Default: the host as device 0.
    pub fn device(mut self, device: impl Device + 'static) -> Builder {
        let make = |recorder: &Recorder, id, settings| {
            CachingAllocator::with_settings(device, &recorder.track(id), settings)
        };
        self.devices.push(Box::new(make));
        self
    }

    /// Records from the start with these options. Default: recording is off.
    pub fn history(mut self, history: Recording) -> Builder {
        self.history = Some(history);
        self
    }

    /// Configures all allocators. Default: [`Settings::default`].
    pub fn settings(mut self, settings: Settings) -> Builder {
        self.settings = settings;
        self
    }

    /// Writes a snapshot when a request fails; see [`Reel::save_on_oom`] for the path. Default: none.
    pub fn save_on_oom(mut self, path: impl Into<PathBuf>) -> Builder {
        self.save_on_oom = Some(path.into());
        self
    }

    /// Writes snapshots automatically; see [`Reel::dump_on`]. Several calls add up. Default: none, or those in the
    /// variable `MEMREEL`.
    pub fn dump_on(mut self, triggers: &Triggers) -> Builder {
        self.dump_on.push(triggers.clone());
        self
    }

    /// Writes the snapshots of triggers and of failed requests with `dump`, which gets the path of a new file. Use it
    /// for snapshots that contain more than this reel, such as the ledgers of other allocators. Default:
    /// [`Reel::save`].
    ///
    /// `dump` may be called on any thread, with none of memreel's locks held. A reel that it keeps alive is never dropped.
    pub fn dump_with(mut self, dump: impl Fn(&Path) -> Result<()> + Send + Sync + 'static) -> Builder {
        self.dump_with = Some(Box::new(dump));
        self
    }

    /// Sets the PyTorch version whose keys are written. Default: [`Dialect::default`], PyTorch 2.11.
    pub fn dialect(mut self, dialect: Dialect) -> Builder {
        self.dialect = dialect;
        self
    }

    /// Creates the reel.
    ///
    /// # Errors
    /// [`Error::is_misuse`] for more than 65,536 devices, and the errors of [`Reel::dump_on`].
    pub fn build(mut self) -> Result<Reel> {
        if self.devices.is_empty() {
            self = self.device(Host::new());
        }
        let session = Session::new();
        let history = match &self.history {
            Some(history) => Some(session.history(history)),
            None => session.history_alone(),
        };
        let mut allocators = Vec::with_capacity(self.devices.len());
        for (ordinal, make) in self.devices.into_iter().enumerate() {
            let id =
                u16::try_from(ordinal).map_err(|_| Error::misuse("a reel has at most 65,536 devices"))?;
            allocators.push(make(session.recorder(), id.into(), self.settings.clone()));
        }
        let shared = Shared { session, allocators, dialect: self.dialect, dump_with: self.dump_with };
        let reel = Reel { shared: Arc::new(shared) };
        watch(&reel.shared);
        if let Some(history) = &history {
            reel.shared.record(history);
        }
        if let Some(path) = self.save_on_oom {
            reel.save_on_oom(path);
        }
        self.dump_on.iter().try_for_each(|triggers| reel.dump_on(triggers))?;
        reel.shared.session.dump_as_asked(|| source(&reel.shared));
        Ok(reel)
    }
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("n_devices", &self.devices.len())
            .field("history", &self.history)
            .finish_non_exhaustive()
    }
}
