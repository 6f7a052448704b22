//! Devices, allocators and the recorder, wired together: what a program holds.
#![forbid(unsafe_code)]

use std::{
    fmt,
    path::{Path, PathBuf},
    sync::{Arc, Weak},
};

use crate::{
    allocator::{Allocation, CachingAllocator, Settings},
    device::{Device, Host},
    error::{Error, OutOfMemory, Result},
    event::{DeviceId, StreamId},
    inventory::Inventory,
    pickle,
    recorder::{History, Recorder, Scope},
    snapshot::{self, Dialect, Snapshot, TapeSnapshot},
};

/// A recorder and one caching allocator for each device. Clones are the same reel.
///
/// ```
/// use memreel::{Reel, recorder::History};
///
/// let reel = Reel::builder().history(History::all()).build()?;
/// let weights = reel.alloc(4_000_000)?;
/// let snapshot = reel.snapshot();
/// assert_eq!(snapshot.device_traces[0].len(), 2, "one segment, one block");
/// # drop(weights);
/// # Ok::<(), memreel::Error>(())
/// ```
#[derive(Clone)]
pub struct Reel {
    shared: Arc<Shared>,
}

struct Shared {
    recorder: Recorder,
    allocators: Vec<CachingAllocator>,
    dialect: Dialect,
}

/// A device, waiting for its ordinal and its recorder.
type MakeAllocator = dyn FnOnce(&Recorder, DeviceId, Settings) -> CachingAllocator;

/// How a reel is put together.
#[derive(Default)]
#[must_use = "a builder does nothing until `build`"]
pub struct Builder {
    devices: Vec<Box<MakeAllocator>>,
    history: Option<History>,
    save_on_oom: Option<PathBuf>,
    settings: Settings,
    dialect: Dialect,
}

impl Reel {
    /// Begins with nothing recorded and no device named.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// A block on device 0, for the default stream.
    ///
    /// # Errors
    /// As [`CachingAllocator::alloc`].
    pub fn alloc(&self, bytes: u64) -> Result<Allocation> {
        self.shared.allocators[0].alloc(bytes, StreamId::DEFAULT)
    }

    /// The allocator of a device.
    ///
    /// # Errors
    /// [`Error::is_misuse`] without such a device.
    pub fn allocator(&self, device: impl Into<DeviceId>) -> Result<&CachingAllocator> {
        let device = device.into();
        device.index().and_then(|index| self.shared.allocators.get(index)).ok_or_else(|| {
            Error::misuse(format!(
                "there is no device {device}: this reel has {}",
                self.shared.allocators.len()
            ))
        })
    }

    /// Typed memory on a device that is a GPU.
    ///
    /// # Errors
    /// [`Error::is_misuse`] without such a device, or if it is no GPU.
    #[cfg(feature = "cuda")]
    pub fn cuda(&self, device: impl Into<DeviceId>) -> Result<crate::cuda::Memory> {
        crate::cuda::Memory::new(self.allocator(device)?)
    }

    /// The allocators of all devices, by ordinal.
    #[must_use]
    pub fn allocators(&self) -> &[CachingAllocator] {
        &self.shared.allocators
    }

    /// The recorder of all devices.
    #[must_use]
    pub fn recorder(&self) -> &Recorder {
        &self.shared.recorder
    }

    /// Switches recording; see [`Recorder::record_history`].
    pub fn record_history(&self, history: &History) {
        self.shared.recorder.record_history(history);
    }

    /// Opens a scope on this thread; see [`Recorder::scope`].
    #[must_use = "the scope ends when this is dropped"]
    pub fn scope(&self, name: &str) -> Scope {
        self.shared.recorder.scope(name)
    }

    /// What is known now, of all devices: segments, blocks and the events so far.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        self.shared.recorded().into_snapshot()
    }

    /// Writes [`Reel::snapshot`] to a file, whole or not at all. It takes no memory for the events.
    ///
    /// # Errors
    /// [`Error::is_io`]; a file that stood there before is then untouched.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        pickle::save(&self.shared.recorded(), path.as_ref())
    }

    /// From now on a failed request writes a snapshot before its error is returned.
    ///
    /// The error says where it is, or why it could not be written; the
    /// program is never stopped by it. Each failure overwrites the file; asked
    /// twice, it writes both. Without recorded history the file shows blocks,
    /// but not where they came from.
    pub fn save_on_oom(&self, path: impl Into<PathBuf>) {
        let path = path.into();
        for allocator in &self.shared.allocators {
            // Weak: the allocator belongs to the reel, and must not keep it.
            let reel = Arc::downgrade(&self.shared);
            let path = path.clone();
            allocator.on_oom(move |figures| save_before_error(&reel, &path, figures));
        }
    }

    /// Gives every segment that is not in use back to its device.
    ///
    /// # Errors
    /// As [`CachingAllocator::empty_cache`].
    pub fn empty_cache(&self) -> Result<()> {
        self.shared.allocators.iter().try_for_each(CachingAllocator::empty_cache)
    }
}

fn save_before_error(reel: &Weak<Shared>, path: &Path, figures: &mut OutOfMemory) {
    let Some(reel) = reel.upgrade() else { return };
    match pickle::save(&reel.recorded(), path) {
        Ok(()) => (figures.snapshot, figures.snapshot_failure) = (Some(path.into()), None),
        Err(error) => figures.snapshot_failure = Some(error.to_string()),
    }
}

impl Shared {
    fn recorded(&self) -> TapeSnapshot {
        let inventories: Vec<&dyn Inventory> =
            self.allocators.iter().map(|allocator| allocator as &dyn Inventory).collect();
        snapshot::collect_lazily(&self.recorder, &inventories, self.dialect)
    }
}

impl fmt::Debug for Reel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reel").field("allocators", &self.shared.allocators).finish_non_exhaustive()
    }
}

impl Builder {
    /// Adds a device; its ordinal is the number of those before it.
    /// Default: the host alone, as device 0.
    pub fn device(mut self, device: impl Device + 'static) -> Builder {
        let make = |recorder: &Recorder, id, settings| {
            CachingAllocator::with_settings(device, &recorder.track(id), settings)
        };
        self.devices.push(Box::new(make));
        self
    }

    /// Records from the beginning. Default: off.
    pub fn history(mut self, history: History) -> Builder {
        self.history = Some(history);
        self
    }

    /// The settings of every allocator. Default: [`Settings::default`].
    pub fn settings(mut self, settings: Settings) -> Builder {
        self.settings = settings;
        self
    }

    /// Writes a snapshot there when a request fails; see [`Reel::save_on_oom`]. Default: nowhere.
    pub fn save_on_oom(mut self, path: impl Into<PathBuf>) -> Builder {
        self.save_on_oom = Some(path.into());
        self
    }

    /// Whose keys snapshots carry. Default: PyTorch 2.11's.
    pub fn dialect(mut self, dialect: Dialect) -> Builder {
        self.dialect = dialect;
        self
    }

    /// The reel.
    ///
    /// # Errors
    /// [`Error::is_misuse`] for more than 65,536 devices.
    pub fn build(mut self) -> Result<Reel> {
        if self.devices.is_empty() {
            self = self.device(Host::new());
        }
        let recorder = Recorder::new();
        if let Some(history) = &self.history {
            recorder.record_history(history);
        }
        let mut allocators = Vec::with_capacity(self.devices.len());
        for (ordinal, make) in self.devices.into_iter().enumerate() {
            let id =
                u16::try_from(ordinal).map_err(|_| Error::misuse("a reel has at most 65,536 devices"))?;
            allocators.push(make(&recorder, id.into(), self.settings.clone()));
        }
        let reel = Reel { shared: Arc::new(Shared { recorder, allocators, dialect: self.dialect }) };
        if let Some(path) = self.save_on_oom {
            reel.save_on_oom(path);
        }
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
