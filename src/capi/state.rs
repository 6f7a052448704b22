//! What the C interface works on: one reel for the process, and the blocks that callers hold.

use std::{
    collections::BTreeMap,
    ffi::c_int,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use once_cell::sync::OnceCell;
use rustc_hash::FxHashMap;

#[cfg(feature = "cuda")]
use crate::device::Cuda;
use crate::{
    allocator::{Allocation, CachingAllocator, Settings},
    error::{Error, Result},
    event::{Address, StreamId},
    recorder::Ledger,
    reel::Reel,
};

/// The process's reel and what callers have of it.
#[derive(Debug)]
pub(super) struct State {
    pub(super) reel: Reel,
    /// The GPUs behind the reel's allocators, by ordinal; none on the host.
    #[cfg(feature = "cuda")]
    gpus: Vec<Arc<Cuda>>,
    /// Blocks by address. Addresses are one space over all devices.
    live: Mutex<FxHashMap<u64, Allocation>>,
    /// Of allocators that report to memreel, by device.
    pub(super) ledgers: Mutex<BTreeMap<u16, Arc<Ledger>>>,
}

/// The state, made at first use and kept until the process ends: callers free
/// blocks until the very last.
pub(super) fn state() -> Result<&'static State> {
    static STATE: OnceCell<State> = OnceCell::new();
    STATE.get_or_try_init(State::open)
}

/// Which devices to use: the value of `MEMREEL_DEVICE`.
enum Wanted {
    Host,
    Cuda,
    CudaIfThere,
}

impl Wanted {
    fn from_env() -> Result<Wanted> {
        match std::env::var("MEMREEL_DEVICE").ok().as_deref() {
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
        let builder = Reel::builder().settings(settings);
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
        State {
            reel,
            #[cfg(feature = "cuda")]
            gpus: Vec::new(),
            live: Mutex::default(),
            ledgers: Mutex::default(),
        }
    }

    /// A device's allocator.
    pub(super) fn allocator(&self, device: c_int) -> Result<&CachingAllocator> {
        self.reel.allocator(usize::try_from(device).unwrap_or(usize::MAX))
    }

    /// A new block, which is the caller's until [`State::free`].
    #[inline]
    pub(super) fn alloc(&self, bytes: u64, device: c_int, stream: StreamId) -> Result<Address> {
        let block = self.allocator(device)?.alloc(bytes, stream)?;
        let address = block.address();
        self.live().insert(address.0, block);
        Ok(address)
    }

    /// Takes a block back, by its address alone.
    #[inline]
    pub(super) fn free(&self, address: Address) -> Result<()> {
        let block = self.live().remove(&address.0);
        block.ok_or_else(|| Error::misuse(format!("{address} is no live block of memreel's")))?.free()
    }

    /// Another stream uses a block.
    ///
    /// # Safety
    /// The stream is one of the block's device, and is not destroyed before the process ends.
    pub(super) unsafe fn record_stream(&self, address: Address, stream: StreamId) -> Result<()> {
        let live = self.live();
        let block = live
            .get(&address.0)
            .ok_or_else(|| Error::misuse(format!("{address} is no live block of memreel's")))?;
        #[cfg(feature = "cuda")]
        if let Some(gpu) = self.gpus.get(block.device_id().index()) {
            // SAFETY: the caller's promise.
            unsafe { gpu.adopt_stream(stream) };
        }
        block.record_stream(stream);
        Ok(())
    }

    fn live(&self) -> MutexGuard<'_, FxHashMap<u64, Allocation>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The GPUs to use; none is the host.
#[cfg(feature = "cuda")]
fn gpus() -> Result<Vec<Cuda>> {
    match Wanted::from_env()? {
        Wanted::Host => Ok(Vec::new()),
        Wanted::Cuda => match Cuda::all()? {
            gpus if gpus.is_empty() => Err(Error::misuse("MEMREEL_DEVICE asks for a GPU, and there is none")),
            gpus => Ok(gpus),
        },
        Wanted::CudaIfThere => Ok(Cuda::all().unwrap_or_default()),
    }
}
