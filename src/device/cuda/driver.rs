//! The driver: whether it is there, its errors as ours, and a device's context made current for a while.

use std::ptr;

use cudarc::driver::{
    result::{self, DriverError},
    sys,
};

use crate::error::{Error, Result};

/// What the driver answers.
pub(super) type Answer<T> = std::result::Result<T, DriverError>;

/// What the driver's failures become.
pub(super) fn failed(device: &str, what: &str, error: DriverError) -> Error {
    Error::device(device, format!("{what}: {error}"))
}

/// Whether the driver said that it has no memory left.
pub(super) fn is_full(error: DriverError) -> bool {
    error.0 == sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY
}

/// Loads and initialises the driver.
///
/// cudarc ends the program when it finds no driver, so the loader is asked
/// first. cudarc has a function for that too, but only where it loads the
/// driver at run time, which another crate of the program may have changed.
pub(super) fn start() -> Result<()> {
    let names = [c"libcuda.so.1", c"libcuda.so"];
    // SAFETY: the names end in nul; loading NVIDIA's driver runs its initialisers, which is what
    // using it means.
    let is_there = |name: &std::ffi::CStr| unsafe { !libc::dlopen(name.as_ptr(), libc::RTLD_NOW).is_null() };
    if !names.into_iter().any(is_there) {
        return Err(Error::device("cuda", "NVIDIA's driver (libcuda.so.1) is not installed"));
    }
    result::init().map_err(|error| failed("cuda", "cuInit", error))
}

/// The primary context of a device, the one that CUDA's runtime and cudarc use too.
#[derive(Debug)]
pub(super) struct Primary {
    device: sys::CUdevice,
    context: sys::CUcontext,
}

// SAFETY: a context may be pushed on any thread at any time; the driver locks for itself.
unsafe impl Send for Primary {}
// SAFETY: as above.
unsafe impl Sync for Primary {}

impl Primary {
    pub(super) fn retain(device: sys::CUdevice) -> Answer<Primary> {
        // SAFETY: the device came from `cuDeviceGet`.
        let context = unsafe { result::primary_ctx::retain(device)? };
        Ok(Primary { device, context })
    }

    /// Makes the context current on this thread until the answer is dropped.
    pub(super) fn enter(&self) -> Answer<Entered> {
        // SAFETY: the context is retained until `self` is dropped.
        unsafe { sys::cuCtxPushCurrent_v2(self.context).result()? };
        let mut mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
        // SAFETY: the mode is this thread's own, and a valid one goes in.
        let relaxed = unsafe { sys::cuThreadExchangeStreamCaptureMode(&raw mut mode).result() };
        Ok(Entered { capture_mode: relaxed.ok().map(|()| mode) })
    }
}

impl Drop for Primary {
    fn drop(&mut self) {
        // SAFETY: retained once in `retain`. At the end of the process the driver may be gone
        // already and says so, which changes nothing.
        let _ = unsafe { result::primary_ctx::release(self.device) };
    }
}

/// While it lives, a device's context is current, and this thread may ask for
/// memory although a graph is being captured: what is asked for here belongs to
/// no graph (caching-allocator.md 2.5).
#[derive(Debug)]
pub(super) struct Entered {
    capture_mode: Option<sys::CUstreamCaptureMode>,
}

impl Drop for Entered {
    fn drop(&mut self) {
        if let Some(mut mode) = self.capture_mode {
            // SAFETY: as in `enter`; this is the mode that was in force there.
            let _ = unsafe { sys::cuThreadExchangeStreamCaptureMode(&raw mut mode) };
        }
        let mut left = ptr::null_mut();
        // SAFETY: `enter` pushed one context, and those pushed after it were popped before.
        let _ = unsafe { sys::cuCtxPopCurrent_v2(&raw mut left) };
    }
}
