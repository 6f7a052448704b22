//! `cuGetProcAddress`, which hands out wrappers in place of the driver's functions.

use std::ffi::{CStr, c_char, c_int, c_void};

use super::{calls, loader, types::Status};

/// `CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM`.
const PER_THREAD: u64 = 1 << 1;

/// Replaces the function that `cuGetProcAddress` wrote into `found` by its wrapper, if it has one.
///
/// # Safety
/// The parameters are those of a call of `cuGetProcAddress` that had this status; `is_twin` tells whether the
/// function was asked for by the twin for the default stream of each thread.
pub(crate) unsafe fn replace(
    status: Status,
    (name, found): (*const c_char, *mut *mut c_void),
    version: c_int,
    flags: u64,
    is_twin: bool,
) {
    if !status.is_success() || name.is_null() || found.is_null() {
        return;
    }
    // SAFETY: the driver took the name, and wrote the address.
    let (name, function) = unsafe { (CStr::from_ptr(name), *found) };
    if function.is_null() {
        return;
    }
    let is_per_thread = flags & PER_THREAD != 0 || is_twin && flags == 0;
    let Some(entry) = calls::by_name(name, version, is_per_thread) else { return };
    if is_later(entry.symbol, function) {
        return;
    }
    // SAFETY: the caller expects an address of a function here, and the wrapper has the type of the function.
    unsafe { *found = entry.replace(function) };
}

/// Returns whether a function is a later version than the one that is wrapped: its parameters may be others.
fn is_later(symbol: &CStr, function: *mut c_void) -> bool {
    let text = symbol.to_str().unwrap_or_default();
    let (name, twin) = text.strip_suffix("_ptsz").map_or((text, ""), |name| (name, "_ptsz"));
    let (name, version) = match name.rsplit_once("_v") {
        Some((name, version)) => (name, version.parse().unwrap_or(1)),
        None => (name, 1_u32),
    };
    (version + 1..version + 4).any(|version| {
        let later = std::ffi::CString::new(format!("{name}_v{version}{twin}")).unwrap_or_default();
        loader::of_driver(&later) == function
    })
}
