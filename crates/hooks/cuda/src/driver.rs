//! The driver's functions that this library calls for itself.
//!
//! None of them makes a context, waits for a stream or does anything to a stream that is captured.

use std::{
    ffi::{CStr, c_char, c_int, c_uint, c_void},
    mem::transmute,
    ptr,
};

use once_cell::race::OnceBox;

use super::{
    loader,
    types::{DevicePtr, Handle, Location, Ordinal, Properties, Status},
};

macro_rules! functions {
    ($($(#[$doc:meta])* $name:ident = $symbol:literal($($type:ty),*);)*) => {
        /// Functions of the driver; `None` for those that it lacks.
        #[derive(Debug, Default)]
        pub(crate) struct Driver {
            $($(#[$doc])* $name: Option<unsafe extern "C" fn($($type),*) -> Status>,)*
        }

        impl Driver {
            fn find() -> Driver {
                Driver {
                    // SAFETY: null is `None`; another address is the function of that name, whose type `cuda.h` fixes.
                    $($name: unsafe { transmute::<*mut c_void, Option<unsafe extern "C" fn($($type),*) -> Status>>(loader::of_driver($symbol)) },)*
                }
            }
        }
    };
}

functions! {
    count = c"cuDeviceGetCount"(*mut c_int);
    name = c"cuDeviceGetName"(*mut c_char, c_int, Ordinal);
    uuid = c"cuDeviceGetUuid_v2"(*mut [u8; 16], Ordinal);
    device_of_context = c"cuCtxGetDevice"(*mut Ordinal);
    push_context = c"cuCtxPushCurrent_v2"(Handle);
    pop_context = c"cuCtxPopCurrent_v2"(*mut Handle);
    retain_primary = c"cuDevicePrimaryCtxRetain"(*mut Handle, Ordinal);
    release_primary = c"cuDevicePrimaryCtxRelease_v2"(Ordinal);
    primary_state = c"cuDevicePrimaryCtxGetState"(Ordinal, *mut c_uint, *mut c_int);
    memory_info = c"cuMemGetInfo_v2"(*mut usize, *mut usize);
    handle_properties = c"cuMemGetAllocationPropertiesFromHandle"(*mut Properties, u64);
    pointer_attribute = c"cuPointerGetAttribute"(*mut c_int, c_int, DevicePtr);
    address_range = c"cuMemGetAddressRange_v2"(*mut DevicePtr, *mut usize, DevicePtr);
    default_pool = c"cuDeviceGetDefaultMemPool"(*mut Handle, Ordinal);
    pool_attribute = c"cuMemPoolGetAttribute"(Handle, c_int, *mut u64);
    graph_attribute = c"cuDeviceGetGraphMemAttribute"(Ordinal, c_int, *mut u64);
    exchange_mode = c"cuThreadExchangeStreamCaptureMode"(*mut c_int);
    is_capturing = c"cuStreamIsCapturing"(Handle, *mut c_int);
    create_event = c"cuEventCreate"(*mut Handle, c_uint);
    record_event = c"cuEventRecord"(Handle, Handle);
    query_event = c"cuEventQuery"(Handle);
}

/// What the device reports about its memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct MemoryInfo {
    pub(crate) used_bytes: u64,
    pub(crate) total_bytes: u64,
}

/// Returns the driver's functions; `None` before the program has loaded the driver.
pub(crate) fn driver() -> Option<&'static Driver> {
    static DRIVER: OnceBox<Driver> = OnceBox::new();
    DRIVER
        .get_or_try_init(|| {
            let found = Driver::find();
            if found.memory_info.is_some() { Ok(Box::new(found)) } else { Err(()) }
        })
        .ok()
}

/// `CU_EVENT_DISABLE_TIMING`.
const WITHOUT_TIME: c_uint = 2;
/// `CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL`.
const DEVICE_OF_POINTER: c_int = 9;
/// `CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT`.
const RESERVED: c_int = 5;
/// `CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT`.
const RESERVED_BY_GRAPHS: c_int = 2;
/// `CU_STREAM_CAPTURE_MODE_RELAXED`.
const RELAXED: c_int = 2;

impl Driver {
    /// Calls a function that writes its result to a pointer, and returns the result.
    fn ask<T: Default>(call: impl FnOnce(*mut T) -> Option<Status>) -> Option<T> {
        let mut answer = T::default();
        call(&raw mut answer).filter(|status| status.is_success()).map(|_| answer)
    }

    /// The device of this thread's context.
    #[inline]
    pub(crate) fn current_device(&self) -> Option<Ordinal> {
        // SAFETY: the driver writes the number of a device.
        Driver::ask(|device| Some(unsafe { (self.device_of_context?)(device) }))
    }

    /// Returns the number of devices; `None` before the driver is initialised.
    pub(crate) fn n_devices(&self) -> Option<c_int> {
        // SAFETY: the driver writes a number.
        Driver::ask(|n| Some(unsafe { (self.count?)(n) }))
    }

    /// The name and the identity of a device.
    pub(crate) fn identity(&self, device: Ordinal) -> (String, String) {
        let mut name = [0; 256];
        // SAFETY: the driver writes at most 256 bytes, the last of them nul.
        let named = self.name.map(|call| unsafe { call(name.as_mut_ptr(), 256, device) });
        let name = match named {
            // SAFETY: the driver wrote a text that ends in nul.
            Some(Status::SUCCESS) => unsafe { CStr::from_ptr(name.as_ptr()) }.to_string_lossy().into_owned(),
            _ => String::new(),
        };
        // SAFETY: the driver writes 16 bytes.
        let uuid = Driver::ask::<[u8; 16]>(|uuid| Some(unsafe { (self.uuid?)(uuid, device) }));
        (name, uuid.map(uuid_text).unwrap_or_default())
    }

    /// The memory of this thread's device.
    pub(crate) fn memory(&self) -> Option<MemoryInfo> {
        let (mut free, mut total) = (0_usize, 0_usize);
        // SAFETY: the driver writes two sizes.
        let status = unsafe { (self.memory_info?)(&raw mut free, &raw mut total) };
        let (free, total_bytes) = (free as u64, total as u64);
        status.is_success().then(|| MemoryInfo { used_bytes: total_bytes.saturating_sub(free), total_bytes })
    }

    /// Makes an existing context this thread's, while `work` runs.
    ///
    /// # Safety
    /// The context is not destroyed meanwhile.
    pub(crate) unsafe fn within<T>(&self, context: usize, work: impl FnOnce() -> T) -> Option<T> {
        let (push, pop) = (self.push_context?, self.pop_context?);
        // SAFETY: the caller's promise.
        if !unsafe { push(ptr::with_exposed_provenance_mut(context)) }.is_success() {
            return None;
        }
        let done = work();
        let mut popped = ptr::null_mut();
        // SAFETY: the driver writes the context that was pushed above.
        unsafe { pop(&raw mut popped) };
        Some(done)
    }

    /// Returns whether a device's primary context exists.
    pub(crate) fn has_primary(&self, device: Ordinal) -> bool {
        let (mut flags, mut is_active) = (0, 0);
        let Some(call) = self.primary_state else { return true };
        // SAFETY: the driver writes two numbers.
        let status = unsafe { call(device, &raw mut flags, &raw mut is_active) };
        !status.is_success() || is_active != 0
    }

    /// Returns the primary context of a device, if it exists.
    pub(crate) fn primary(&self, device: Ordinal) -> Option<usize> {
        let (retain, release) = (self.retain_primary?, self.release_primary?);
        if !self.has_primary(device) {
            return None;
        }
        let mut context = ptr::null_mut();
        // SAFETY: the driver writes the context, which this call retains and the next one releases.
        let is_retained = unsafe { retain(&raw mut context, device) }.is_success();
        if is_retained {
            // SAFETY: as above.
            unsafe { release(device) };
        }
        is_retained.then(|| context.expose_provenance())
    }

    /// The bytes of the allocation that an address is in.
    pub(crate) fn size_at(&self, address: DevicePtr) -> Option<u64> {
        let (mut start, mut bytes) = (0, 0_usize);
        // SAFETY: the driver writes an address and a size.
        let status = unsafe { (self.address_range?)(&raw mut start, &raw mut bytes, address) };
        status.is_success().then_some(bytes as u64)
    }

    /// The device that has the memory at an address.
    pub(crate) fn device_at(&self, address: DevicePtr) -> Option<Ordinal> {
        // SAFETY: the driver writes the number of a device.
        Driver::ask(|device| Some(unsafe { (self.pointer_attribute?)(device, DEVICE_OF_POINTER, address) }))
    }

    /// Returns the location of the physical memory under a handle.
    pub(crate) fn location(&self, handle: u64) -> Option<Location> {
        // SAFETY: the driver writes the properties.
        let ask = |properties| Some(unsafe { (self.handle_properties?)(properties, handle) });
        Driver::ask::<Properties>(ask).map(|properties| properties.place.location)
    }

    /// The pool that a device allocates from by default.
    pub(crate) fn default_pool(&self, device: Ordinal) -> Option<usize> {
        let mut pool = ptr::null_mut();
        // SAFETY: the driver writes a pool.
        let status = unsafe { (self.default_pool?)(&raw mut pool, device) };
        (status.is_success() && !pool.is_null()).then(|| pool.expose_provenance())
    }

    /// The bytes that a pool holds from its device.
    ///
    /// # Safety
    /// The pool exists.
    pub(crate) unsafe fn reserved_bytes(&self, pool: usize) -> Option<u64> {
        let pool = ptr::with_exposed_provenance_mut(pool);
        // SAFETY: the caller's promise; the driver writes a number of 64 bits.
        Driver::ask(|bytes| Some(unsafe { (self.pool_attribute?)(pool, RESERVED, bytes) }))
    }

    /// The bytes that a device holds for nodes of graphs that allocate.
    pub(crate) fn graph_bytes(&self, device: Ordinal) -> u64 {
        // SAFETY: the driver writes a number of 64 bits.
        let ask = |bytes| Some(unsafe { (self.graph_attribute?)(device, RESERVED_BY_GRAPHS, bytes) });
        Driver::ask(ask).unwrap_or(0)
    }

    /// Makes calls that a capture may forbid, on one of the program's threads: none of them is captured.
    pub(crate) fn relaxed<T>(&self, work: impl FnOnce() -> T) -> T {
        let mode = self.exchange(RELAXED);
        let done = work();
        self.exchange(mode);
        done
    }

    /// Sets which calls a capture forbids this thread; returns the previous mode.
    fn exchange(&self, mut mode: c_int) -> c_int {
        // SAFETY: the driver reads the mode and writes the former one.
        self.exchange_mode.map(|call| unsafe { call(&raw mut mode) });
        mode
    }

    /// Returns whether the work of a stream is being captured. This query is legal for any stream.
    ///
    /// # Safety
    /// The stream exists.
    pub(crate) unsafe fn is_capturing(&self, stream: usize) -> bool {
        let mut state = 0;
        let Some(call) = self.is_capturing else { return false };
        // SAFETY: the caller's promise; the driver writes a number.
        let status = unsafe { call(ptr::with_exposed_provenance_mut(stream), &raw mut state) };
        // An error says that another stream is captured which this one, the default stream, would wait for.
        !status.is_success() || state != 0
    }

    /// Marks the end of a stream's work so far, with `event` or a new one.
    ///
    /// # Safety
    /// The stream exists, is not captured and is of this thread's context; so is the event.
    pub(crate) unsafe fn mark(&self, stream: usize, event: Option<usize>) -> Option<usize> {
        let event = match event {
            Some(event) => event,
            None => {
                let mut made = ptr::null_mut();
                // SAFETY: the driver writes an event.
                let status = unsafe { (self.create_event?)(&raw mut made, WITHOUT_TIME) };
                status.is_success().then(|| made.expose_provenance())?
            }
        };
        let (event_handle, stream) =
            (ptr::with_exposed_provenance_mut(event), ptr::with_exposed_provenance_mut(stream));
        // SAFETY: the caller's promise.
        unsafe { (self.record_event?)(event_handle, stream) }.is_success().then_some(event)
    }

    /// Returns whether the work before a mark is done.
    ///
    /// # Safety
    /// The event exists and is of this thread's context.
    pub(crate) unsafe fn is_done(&self, event: usize) -> bool {
        // SAFETY: the caller's promise.
        let ask = |call: unsafe extern "C" fn(Handle) -> Status| unsafe {
            call(ptr::with_exposed_provenance_mut(event))
        };
        self.query_event.is_some_and(|call| ask(call).is_success())
    }
}

/// Returns an identity as NVIDIA's tools print it: `GPU-01234567-89ab-cdef-0123-456789abcdef`.
fn uuid_text(uuid: [u8; 16]) -> String {
    let hex: String = uuid.iter().map(|byte| format!("{byte:02x}")).collect();
    let [a, b, c, d, e] = [0..8, 8..12, 12..16, 16..20, 20..32].map(|range| &hex[range]);
    format!("GPU-{a}-{b}-{c}-{d}-{e}")
}
