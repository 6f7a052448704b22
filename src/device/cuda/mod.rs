//! An NVIDIA GPU: segments from `cuMemAlloc`, pages from its virtual memory, marks from its events.

mod driver;
mod marks;
mod own_context;
mod pages;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cudarc::driver::{
    CudaContext, CudaStream,
    result::{self, DriverError},
    sys,
};
use once_cell::sync::OnceCell;

use super::{Device, Mark};
use crate::process::fork;
use driver::{Answer, Entered, Primary, failed, is_full, start};
use marks::{DriverEvent, Marks};
use memreel_snapshot::words::{Address, Error, Result, StreamId};
pub(crate) use own_context::{Lost, OwnContext, Twin};
use pages::Ranges;

/// The id for streams of other contexts. No stream has this handle.
const FOREIGN: StreamId = StreamId(-1);

/// One NVIDIA GPU, used through its primary context, which CUDA's runtime and cudarc share.
///
/// The context is created by the first call that needs it, so an unused GPU costs nothing. Freed memory can be reused
/// on its own stream immediately. A block that other streams use waits for them; the device must know these streams:
/// the default stream, and those passed to [`Cuda::use_stream`].
///
/// ```no_run
/// use std::sync::Arc;
/// use memreel::{Reel, device::Cuda, recorder::Recording};
///
/// let reel = Reel::builder().device(Cuda::new(0)?).history(Recording::all()).build()?;
/// let block = reel.alloc(1 << 20)?; // `block.address()` is a device pointer
/// # Ok::<(), memreel::Error>(())
/// ```
#[derive(Debug)]
pub struct Cuda {
    name: String,
    ordinal: i32,
    device: sys::CUdevice,
    total_bytes: u64,
    /// Page sizes must be multiples of this; `None` if the driver has no virtual memory calls.
    granularity_bytes: Option<u64>,
    /// The process that opened the device, identified by its forks.
    generation: u32,
    primary: OnceCell<Primary>,
    /// Created at the first use of a slice on a stream other than its own.
    own_context: OnceCell<Arc<OwnContext>>,
    marks: Arc<Mutex<Marks>>,
    ranges: Mutex<Ranges>,
}

impl Cuda {
    /// Returns the GPU that a device is or wraps; `None` for other devices.
    #[must_use]
    pub fn behind(device: &dyn Device) -> Option<&Cuda> {
        device.as_any()?.downcast_ref()
    }

    /// Returns the number of GPUs.
    ///
    /// # Errors
    /// [`Error::is_device`] without NVIDIA's driver, or when it cannot start.
    pub fn count() -> Result<usize> {
        start()?;
        let count = result::device::get_count().map_err(|e| failed("cuda", "cuDeviceGetCount", e))?;
        Ok(usize::try_from(count).unwrap_or(0))
    }

    /// Opens the GPU with an ordinal, counted from 0.
    ///
    /// # Errors
    /// [`Error::is_device`] without NVIDIA's driver or without such a GPU.
    pub fn new(ordinal: usize) -> Result<Cuda> {
        let count = Cuda::count()?;
        let name = format!("cuda:{ordinal}");
        let Some(index) = i32::try_from(ordinal).ok().filter(|_| ordinal < count) else {
            return Err(Error::device(&name, format!("there are {count} devices")));
        };
        let why = |what| move |error| failed(&format!("cuda:{ordinal}"), what, error);
        let device = result::device::get(index).map_err(why("cuDeviceGet"))?;
        // SAFETY: the device came from `cuDeviceGet`.
        let total_bytes = unsafe { result::device::total_mem(device) }.map_err(why("cuDeviceTotalMem"))?;
        let has_ranges = sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED;
        // SAFETY: as above. A driver that is too old to know the attribute refuses it.
        let has_ranges = unsafe { result::device::get_attribute(device, has_ranges) }.unwrap_or(0) != 0;
        own_context::survive_forks();
        let marks = Arc::default();
        fork::register(fork::Level::Device, &marks);
        let granularity_bytes = has_ranges.then(|| pages::granularity(index).ok()).flatten();
        Ok(Cuda {
            name,
            ordinal: index,
            device,
            total_bytes: total_bytes as u64,
            granularity_bytes,
            generation: fork::generation(),
            primary: OnceCell::new(),
            own_context: OnceCell::new(),
            marks,
            ranges: Mutex::default(),
        })
    }

    /// Opens every GPU, in the order of their ordinals.
    ///
    /// # Errors
    /// [`Error::is_device`] without NVIDIA's driver, or when it cannot start.
    pub fn all() -> Result<Vec<Cuda>> {
        (0..Cuda::count()?).map(Cuda::new).collect()
    }

    /// Returns the GPU's ordinal, counted from 0.
    #[must_use]
    pub fn ordinal(&self) -> usize {
        usize::try_from(self.ordinal).unwrap_or(0)
    }

    /// Allows blocks to be used on a stream, and keeps the stream alive as long as the device. Returns the id that
    /// [`Allocation::record_stream`](crate::Allocation::record_stream) takes.
    ///
    /// The per-thread default stream has one id, but is a different stream on each thread: a block that it uses waits
    /// for all work of the context's blocking streams. Do not allocate for that id on several threads. A stream of a
    /// context other than the GPU's primary one gets an id that the device refuses to mark.
    pub fn use_stream(&self, stream: &Arc<CudaStream>) -> StreamId {
        if !self.is_primary(stream.context()) {
            return FOREIGN;
        }
        let id = StreamId::from_handle(stream.cu_stream() as u64);
        self.marks().know(id, Some(stream.clone()));
        id
    }

    /// Allows blocks to be used on a stream that is known only by the driver's handle. Unlike [`Cuda::use_stream`], it
    /// does not keep the stream alive.
    ///
    /// # Safety
    /// The handle is a stream of this device's primary context, and remains valid until the device is dropped.
    pub unsafe fn adopt_stream(&self, stream: StreamId) {
        self.marks().know(stream, None);
    }

    /// Returns true for the primary context of this GPU.
    pub(crate) fn is_primary(&self, context: &CudaContext) -> bool {
        context.ordinal() == self.ordinal() && context.is_primary()
    }

    /// Returns memreel's own handle to the primary context, which lives as long as the device.
    pub(crate) fn own_context(&self) -> std::result::Result<&Arc<OwnContext>, Lost> {
        self.own_context.get_or_try_init(|| OwnContext::open(self.ordinal()))
    }

    /// Returns true if the device may mark the stream.
    pub(crate) fn knows_stream(&self, stream: StreamId) -> bool {
        self.marks().handle(stream).is_some()
    }

    /// Waits until the device has finished all its queued work.
    ///
    /// # Errors
    /// [`Error::is_device`] when some of that work failed.
    pub fn synchronize(&self) -> Result<()> {
        self.within("cuCtxSynchronize", result::ctx::synchronize)
    }

    fn marks(&self) -> MutexGuard<'_, Marks> {
        self.marks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ranges(&self) -> MutexGuard<'_, Ranges> {
        self.ranges.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes the primary context current on this thread until the returned guard is dropped.
    pub(crate) fn enter(&self) -> Result<Entered> {
        // The driver's own error in a child differs from call to call.
        if fork::generation() != self.generation {
            let what = "CUDA cannot be used in a child of the process that opened it; open it after the fork";
            return Err(Error::device(&self.name, what.to_owned()));
        }
        let primary = self.primary.get_or_try_init(|| Primary::retain(self.device));
        primary.and_then(Primary::enter).map_err(|error| failed(&self.name, "its primary context", error))
    }

    /// Calls the driver with the context current.
    fn within<T>(&self, what: &str, call: impl FnOnce() -> Answer<T>) -> Result<T> {
        let _entered = self.enter()?;
        call().map_err(|error| failed(&self.name, what, error))
    }

    /// Calls the driver with the context current; `None` when the driver has no memory left.
    fn unless_full<T>(&self, what: &str, call: impl FnOnce() -> Answer<T>) -> Result<Option<T>> {
        self.within(what, || match call() {
            Ok(given) => Ok(Some(given)),
            Err(error) if is_full(error) => Ok(None),
            Err(error) => Err(error),
        })
    }

    fn event(&self, mark: Mark) -> Result<DriverEvent> {
        let event = self.marks().get(mark);
        event.ok_or_else(|| Error::device(&self.name, "the mark is not one of this device, or was forgotten"))
    }

    /// Records an event. Fails on a stream under capture, where the event would become part of the graph.
    fn record(&self, event: DriverEvent, stream: sys::CUstream) -> Result<()> {
        // SAFETY: the stream comes from `Marks::handle`; the event is one of ours.
        let capture =
            self.within("cuStreamIsCapturing", || unsafe { result::stream::is_capturing(stream) })?;
        if capture != sys::CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE {
            let what =
                format!("stream {:#x} is being captured; begin a pool for the capture first", stream as u64);
            return Err(Error::device(&self.name, what));
        }
        // SAFETY: as above.
        self.within("cuEventRecord", || unsafe { result::event::record(event.0, stream) })
    }
}

// SAFETY: the driver's allocations and reservations overlap no others that are
// live. The memory is not host visible, so no pointers are made from the addresses.
unsafe impl Device for Cuda {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn total_bytes(&self) -> u64 {
        self.total_bytes
    }

    /// Returns what the driver reports, for all processes together; 0 when the call fails.
    fn free_bytes(&self) -> u64 {
        self.within("cuMemGetInfo", result::mem_get_info).map_or(0, |(free, _)| free as u64)
    }

    fn is_host_visible(&self) -> bool {
        false
    }

    fn segment_alloc(&self, bytes: u64) -> Result<Option<Address>> {
        let Some(len) = usize::try_from(bytes).ok().filter(|_| bytes <= self.total_bytes) else {
            return Ok(None);
        };
        // SAFETY: allocating has no precondition; the memory is freed in `segment_free`.
        let given = self.unless_full("cuMemAlloc", || unsafe { result::malloc_sync(len) })?;
        Ok(given.map(Address))
    }

    unsafe fn segment_free(&self, address: Address, _bytes: u64) {
        // The driver waits for all work before it frees memory. A failure comes from an earlier
        // kernel, or from a driver that is already unloaded; the memory is gone either way.
        // SAFETY: the caller guarantees that this came from `cuMemAlloc` above, and is freed once.
        let _ = self.within("cuMemFree", || unsafe { result::free_sync(address.0) });
    }

    fn range_reserve(&self, bytes: u64, page_bytes: u64) -> Result<Option<Address>> {
        let Some(granularity) = self.granularity_bytes else { return Ok(None) };
        let Ok(len) = usize::try_from(bytes) else { return Ok(None) };
        if page_bytes == 0 || !page_bytes.is_multiple_of(granularity) {
            let what = format!(
                "pages of {page_bytes} bytes are not a multiple of its granularity, {granularity} bytes"
            );
            return Err(Error::device(&self.name, what));
        }
        let base = self.unless_full("cuMemAddressReserve", || pages::reserve(len))?;
        if let Some(base) = base {
            self.ranges().insert(base, page_bytes);
        }
        Ok(base.map(Address))
    }

    unsafe fn range_release(&self, address: Address, bytes: u64) {
        self.ranges().remove(address.0);
        // SAFETY: the caller guarantees that the range is ours, whole, and without memory.
        let _ = self.within("cuMemAddressFree", || unsafe { pages::release(address.0, bytes as usize) });
    }

    unsafe fn range_map(&self, address: Address, bytes: u64) -> Result<bool> {
        let Some(page_bytes) = self.ranges().page_bytes(address.0) else {
            return Err(Error::device(&self.name, format!("{address} is not in a reserved range")));
        };
        // SAFETY: the caller guarantees that these are whole pages of the range, without memory.
        let map = || unsafe { pages::map(self.ordinal, address.0, bytes, page_bytes) };
        Ok(self.unless_full("mapping pages", map)?.is_some())
    }

    unsafe fn range_unmap(&self, address: Address, bytes: u64) {
        let Some(page_bytes) = self.ranges().page_bytes(address.0) else { return };
        // Unlike `cuMemFree`, unmapping does not wait for work that uses the memory.
        let _ = self.synchronize();
        let Ok(_entered) = self.enter() else { return };
        // SAFETY: the caller guarantees that these pages were mapped and nothing will use them.
        unsafe { pages::unmap(address.0, bytes, page_bytes) };
    }

    fn mark(&self, stream: StreamId) -> Result<Mark> {
        let mut marks = self.marks();
        let Some(handle) = marks.handle(stream) else {
            let what = format!("stream {:#x} is unknown to it; call `use_stream` first", stream.handle());
            return Err(Error::device(&self.name, what));
        };
        let event = self.within("cuEventCreate", || marks.event())?;
        match self.record(event, handle) {
            Ok(()) => Ok(marks.mark(event)),
            Err(error) => {
                marks.give_up(event);
                Err(error)
            }
        }
    }

    fn is_passed(&self, mark: Mark) -> Result<bool> {
        let event = self.event(mark)?;
        // SAFETY: the event is live: only the holder of a mark forgets it.
        self.within("cuEventQuery", || match unsafe { result::event::query(event.0) } {
            Ok(()) => Ok(true),
            Err(DriverError(sys::CUresult::CUDA_ERROR_NOT_READY)) => Ok(false),
            Err(error) => Err(error),
        })
    }

    fn wait(&self, mark: Mark) -> Result<()> {
        let event = self.event(mark)?;
        // SAFETY: as in `is_passed`.
        self.within("cuEventSynchronize", || unsafe { result::event::synchronize(event.0) })
    }

    unsafe fn forget(&self, mark: Mark) {
        self.marks().forget(mark);
    }

    fn as_any(&self) -> Option<&dyn std::any::Any> {
        Some(self)
    }
}

impl Drop for Cuda {
    fn drop(&mut self) {
        let events = self.marks().take_all();
        let own_context = self.own_context.take();
        if events.is_empty() && own_context.is_none() {
            return;
        }
        let Ok(_entered) = self.enter() else { return };
        drop(own_context);
        for event in events {
            // SAFETY: it is ours, and no mark refers to it any more.
            let _ = unsafe { result::event::destroy(event.0) };
        }
    }
}
