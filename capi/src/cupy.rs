//! The two functions of CuPy's `CFunctionAllocator`: a leading parameter, no stream.

use std::{
    ffi::{c_int, c_void},
    ptr,
};

use super::{
    border::{cross, note, pointer, print},
    pools,
    state::state,
    torch,
};
use memreel::StreamId;

/// Allocates a block on the default stream. Returns null for zero bytes and for
/// a failure; a failure is also written to stderr, because CuPy does not check.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn memreel_cupy_malloc(
    _parameter: *mut c_void,
    size: usize,
    device: c_int,
) -> *mut c_void {
    if size == 0 {
        return ptr::null_mut();
    }
    // The function of a pool may throw, through this function.
    let _chosen = pools::choose(device, StreamId::DEFAULT);
    cross(|| state()?.alloc(size as u64, device, StreamId::DEFAULT)).map_or_else(
        |error| {
            let text = error.to_string();
            note(&text);
            print(&text);
            ptr::null_mut()
        },
        pointer,
    )
}

/// Frees a block; null is ignored.
#[unsafe(no_mangle)]
pub extern "C" fn memreel_cupy_free(_parameter: *mut c_void, address: *mut c_void, device: c_int) {
    torch::free(address, device);
}
