//! The state of the C interface: one reel for the process, and the ledgers of foreign allocators.

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::{OsStr, c_int},
    path::Path,
    sync::Arc,
};

use once_cell::race::OnceBox;

use super::{
    filters::Filters,
    ledgers::{Both, Ledgers},
};
#[cfg(feature = "cuda")]
use memreel::device::Cuda;
use memreel::{
    Address, DeviceId, Error, Reel, Result, StreamId,
    allocator::{CachingAllocator, Settings},
    integrate::{self, PythonFrames},
    ledger::Ledger,
    pickle,
    rewrite::Completed,
    snapshot::{self, Dialect},
};

/// The process's reel, its GPUs, and the ledgers of foreign allocators.
#[derive(Debug)]
pub(super) struct State {
    pub(super) reel: Reel,
    /// The GPUs of the reel's allocators, by ordinal; empty on the host.
    #[cfg(feature = "cuda")]
    gpus: Vec<Arc<Cuda>>,
    /// The ledgers of allocators that report to memreel.
    pub(super) ledgers: Ledgers,
    /// The functions of the begun pools.
    pub(super) filters: Filters,
    /// The frames of the interpreter in this process, now or once it is loaded.
    pub(super) python: Arc<PythonFrames>,
}

/// Returns the state. It is created at the first use and never dropped, because callers free blocks until the process
/// ends.
pub(super) fn state() -> Result<&'static State> {
    STATE.get_or_try_init(|| State::open().map(Box::new))
}

// A cell that no thread waits for: in a child of `fork` the thread that fills it may not exist. Two threads may each
// open a state at once; one of them is dropped.
static STATE: OnceBox<State> = OnceBox::new();

/// Writes a snapshot for a trigger or a failed request: with the ledgers, like every snapshot in C.
fn dump(path: &Path) -> Result<()> {
    // A trigger may be faster than the cell is filled.
    let state = STATE.get().ok_or_else(|| Error::misuse("memreel is being initialised"))?;
    pickle::save(&state.recorded(), path)
}

/// Which devices to use, from the environment variable `MEMREEL_DEVICE`.
enum Wanted {
    Host,
    Cuda,
    CudaIfThere,
}

impl Wanted {
    fn from_env() -> Result<Wanted> {
        match integrate::variable("MEMREEL_DEVICE").as_deref().map(OsStr::to_string_lossy).as_deref() {
            None | Some("") => Ok(Wanted::CudaIfThere),
            Some("host") => Ok(Wanted::Host),
            Some("cuda") => Ok(Wanted::Cuda),
            Some(other) => Err(Error::invalid_option("MEMREEL_DEVICE", other, "\"host\" or \"cuda\"")),
        }
    }
}

impl State {
    fn open() -> Result<State> {
        let settings = Settings::from_env()?;
        let builder = Reel::builder().settings(settings).dump_with(dump);
        #[cfg(feature = "cuda")]
        {
            let gpus: Vec<Arc<Cuda>> = gpus()?.into_iter().map(Arc::new).collect();
            let builder = gpus.iter().fold(builder, |builder, gpu| builder.device(gpu.clone()));
            Ok(State { gpus, ..State::of(builder.build()?) })
        }
        #[cfg(not(feature = "cuda"))]
        {
            if matches!(Wanted::from_env()?, Wanted::Cuda) {
                return Err(Error::misuse("this libmemreel was built without the feature cuda"));
            }
            Ok(State::of(builder.build()?))
        }
    }

    fn of(reel: Reel) -> State {
        let python = PythonFrames::new();
        reel.recorder().set_frame_source(python.clone());
        State {
            python,
            reel,
            #[cfg(feature = "cuda")]
            gpus: Vec::new(),
            ledgers: Ledgers::default(),
            filters: Filters::default(),
        }
    }

    /// Returns a device's allocator.
    pub(super) fn allocator(&self, device: c_int) -> Result<&CachingAllocator> {
        self.reel.allocator(device)
    }

    /// Allocates a block; the caller owns it until [`State::free`].
    ///
    /// Inlined, like every function between the border and the stack walk,
    /// because each frame in between would be walked at every call.
    #[inline(always)]
    pub(super) fn alloc(&self, bytes: u64, device: c_int, stream: StreamId) -> Result<Address> {
        self.allocator(device)?.alloc_raw(bytes, stream)
    }

    /// Frees a block by its address alone. The address is looked up on `device`
    /// first, then on all others; devices share one address space.
    #[inline(always)]
    pub(super) fn free(&self, address: Address, device: c_int) -> Result<()> {
        let named = self.allocator(device).ok();
        named.and_then(|allocator| allocator.free_raw(address)).unwrap_or_else(|| self.free_anywhere(address))
    }

    #[cold]
    fn free_anywhere(&self, address: Address) -> Result<()> {
        let mut freed = self.reel.allocators().iter().filter_map(|allocator| allocator.free_raw(address));
        freed.next().unwrap_or_else(|| Err(unknown(address)))
    }

    /// Returns a snapshot of all devices, each with its allocator and its ledger.
    pub(super) fn recorded(&self) -> Completed {
        let ledgers: BTreeMap<DeviceId, &Ledger> = self.ledgers.all().collect();
        let own = self.reel.allocators().iter().map(|allocator| allocator.device_id());
        let devices: BTreeSet<DeviceId> = own.chain(ledgers.keys().copied()).collect();
        let both = |id: &DeviceId| Both {
            device: *id,
            allocator: self.reel.allocators().get(id.index().unwrap_or(usize::MAX)),
            ledger: ledgers.get(id).copied(),
        };
        let inventories: Vec<Both<'_>> = devices.iter().map(both).collect();
        Completed::new(snapshot::collect_lazily(self.reel.recorder(), &inventories, Dialect::default()))
    }

    /// Records that another stream uses a block.
    ///
    /// # Safety
    /// The stream belongs to the block's device and is not destroyed before the process ends.
    pub(super) unsafe fn record_stream(&self, address: Address, stream: StreamId) -> Result<()> {
        let mut allocators = self.reel.allocators().iter();
        let found = allocators.find(|allocator| allocator.record_stream_raw(address, stream));
        let allocator = found.ok_or_else(|| unknown(address))?;
        // SAFETY: the caller's promise.
        unsafe { self.adopt(allocator.device_id(), stream) };
        Ok(())
    }

    /// Lets a GPU mark a stream; does nothing on the host, which has no queued work.
    ///
    /// # Safety
    /// The contract of [`State::record_stream`].
    #[cfg_attr(not(feature = "cuda"), allow(unused_variables))]
    unsafe fn adopt(&self, device: DeviceId, stream: StreamId) {
        #[cfg(feature = "cuda")]
        if let Some(gpu) = device.index().and_then(|index| self.gpus.get(index)) {
            // SAFETY: the caller's promise.
            unsafe { gpu.adopt_stream(stream) };
        }
    }
}

pub(super) fn unknown(address: Address) -> Error {
    Error::misuse(format!(
        "{address} is not a live block of memreel's: it was freed before, or memreel did not allocate it"
    ))
}

/// Opens the GPUs to use; an empty list means the host.
#[cfg(feature = "cuda")]
fn gpus() -> Result<Vec<Cuda>> {
    match Wanted::from_env()? {
        Wanted::Host => Ok(Vec::new()),
        Wanted::Cuda => match Cuda::all()? {
            gpus if gpus.is_empty() => Err(Error::misuse("MEMREEL_DEVICE is \"cuda\", but there is no GPU")),
            gpus => Ok(gpus),
        },
        Wanted::CudaIfThere => Ok(Cuda::all().unwrap_or_default()),
    }
}
