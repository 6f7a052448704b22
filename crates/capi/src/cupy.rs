//! The functions of CuPy's `CFunctionAllocator`: a leading parameter, no stream; and one with a stream.

use std::{
    ffi::{c_int, c_void},
    ptr,
};

use super::{
    border::{cross, note, pointer, print},
    pools, torch,
};
use memreel::StreamId;

/// Allocates a block on a stream, for CuPy's `PythonFunctionAllocator`. Returns null for zero bytes and for a failure,
/// whose text `memreel_error` returns; it never throws a failure.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn memreel_cupy_malloc_on(
    size: usize,
    device: c_int,
    stream: *mut c_void,
) -> *mut c_void {
    let stream = stream.addr().into();
    // The function of a pool may throw, through this function.
    let _chosen = pools::choose(device, stream);
    cross(|| torch::alloc(size, device, stream)).map_or_else(
        |error| {
            note(&error.to_string());
            ptr::null_mut()
        },
        pointer,
    )
}

/// Allocates a block on the default stream. Returns null for zero bytes and for
/// a failure; a failure is also written to stderr, because CuPy does not check.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn memreel_cupy_malloc(
    _parameter: *mut c_void,
    size: usize,
    device: c_int,
) -> *mut c_void {
    // The function of a pool may throw, through this function.
    let _chosen = pools::choose(device, StreamId::DEFAULT);
    cross(|| torch::alloc(size, device, StreamId::DEFAULT)).map_or_else(
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
