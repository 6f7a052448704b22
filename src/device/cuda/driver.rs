//! Loads NVIDIA's driver, converts its errors, and makes a device's context current.

use std::ptr;

use cudarc::driver::{
    result::{self, DriverError},
    sys,
};

use memreel_snapshot::words::{Error, Result};

/// The result of a driver call.
pub(super) type Answer<T> = std::result::Result<T, DriverError>;

/// Converts a driver's failure of the call `what` into an [`Error`].
pub(super) fn failed(device: &str, what: &str, error: DriverError) -> Error {
    Error::device(device, format!("{what}: {error}"))
}

/// Returns true if the driver reported that no memory is left.
pub(super) fn is_full(error: DriverError) -> bool {
    error.0 == sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY
}

/// Loads and initialises the driver.
///
/// cudarc panics when the driver is missing, so this checks with the loader
/// first. cudarc's own check exists only when it loads the driver at run time,
/// and another crate of the program may have turned that feature off.
pub(super) fn start() -> Result<()> {
    let names = [c"libcuda.so.1", c"libcuda.so"];
    // SAFETY: the names end in nul; loading the driver runs its initialisers, which any use of
    // CUDA does.
    let is_there = |name: &std::ffi::CStr| unsafe { !libc::dlopen(name.as_ptr(), libc::RTLD_NOW).is_null() };
    if !names.into_iter().any(is_there) {
        return Err(Error::device("cuda", "NVIDIA's driver (libcuda.so.1) is not installed"));
    }
    result::init().map_err(|error| failed("cuda", "cuInit", error))
}

/// The primary context of a device, which CUDA's runtime and cudarc share.
#[derive(Debug)]
pub(super) struct Primary {
    device: sys::CUdevice,
    context: sys::CUcontext,
}

// SAFETY: a context may be pushed on any thread at any time; the driver synchronises internally.
unsafe impl Send for Primary {}
// SAFETY: as above.
unsafe impl Sync for Primary {}

impl Primary {
    pub(super) fn retain(device: sys::CUdevice) -> Answer<Primary> {
        // SAFETY: the device came from `cuDeviceGet`.
        let context = unsafe { result::primary_ctx::retain(device)? };
        Ok(Primary { device, context })
    }

    /// Makes the context current on this thread until the returned guard is dropped.
    pub(super) fn enter(&self) -> Answer<Entered> {
        // SAFETY: the context is retained until `self` is dropped.
        unsafe { sys::cuCtxPushCurrent_v2(self.context).result()? };
        let mut mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
        // SAFETY: the mode belongs to this thread, and the value passed is valid.
        let relaxed = unsafe { sys::cuThreadExchangeStreamCaptureMode(&raw mut mode).result() };
        Ok(Entered { capture_mode: relaxed.ok().map(|()| mode) })
    }
}

impl Drop for Primary {
    fn drop(&mut self) {
        // SAFETY: retained once in `retain`. At the end of the process the driver may already be
        // unloaded and return an error, which is harmless.
        let _ = unsafe { result::primary_ctx::release(self.device) };
    }
}

/// Guard that keeps a device's context current on this thread.
///
/// While it lives, this thread may also request memory during a graph capture:
/// what it requests does not become part of the graph
/// (`docs/caching-allocator.md` 2.5).
#[derive(Debug)]
pub(crate) struct Entered {
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
