//! The two functions of PyTorch's `CUDAPluggableAllocator`, and its optional hooks.

use std::{
    ffi::{c_int, c_void},
    ptr,
};

use super::{
    border::{cross, note, pointer, status},
    pools,
    state::state,
    thrown,
};
use memreel::{Address, Result, StreamId, integrate::Inventory};

/// Allocates a block; for zero bytes returns the null address.
#[inline(always)]
pub(super) fn alloc(size: usize, device: c_int, stream: StreamId) -> Result<Address> {
    if size == 0 { Ok(Address(0)) } else { state()?.alloc(size as u64, device, stream) }
}

/// Allocates a block; returns null for zero bytes. If PyTorch is loaded, which
/// does not check for null, a failure is thrown as a C++ exception.
///
/// # Safety
/// If PyTorch is loaded, or if the function of a pool throws, every caller up to a handler can be unwound.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn memreel_malloc(
    size: usize,
    device: c_int,
    stream: *mut c_void,
) -> *mut c_void {
    let stream = stream.addr().into();
    // Outside the code that catches panics, because a function of the caller may throw here.
    let _chosen = pools::choose(device, stream);
    let error = match cross(|| alloc(size, device, stream)) {
        Ok(address) => return pointer(address),
        Err(error) => error,
    };
    note(&error.to_string());
    // SAFETY: the caller can be unwound.
    unsafe { thrown::throw(error) };
    ptr::null_mut()
}

/// Frees a block. Size and stream may be stale and are ignored; the address is
/// looked up on `device` first.
#[unsafe(no_mangle)]
pub extern "C" fn memreel_free(address: *mut c_void, _size: usize, device: c_int, _stream: *mut c_void) {
    free(address, device);
}

/// Frees a block; for an unknown address, `memreel_error` returns the text of the failure.
#[inline(always)]
pub(super) fn free(address: *mut c_void, device: c_int) {
    if !address.is_null() {
        status(|| state()?.free(Address(address.addr() as u64), device));
    }
}

/// Opens the devices, for `set_init_fn`; otherwise the first request opens them.
#[unsafe(no_mangle)]
pub extern "C" fn memreel_init(_device_count: c_int) {
    status(|| state().map(drop));
}

/// Returns every unused segment to its device, for `set_reset_fn`.
#[unsafe(no_mangle)]
pub extern "C" fn memreel_empty_cache() {
    status(|| state()?.reel.empty_cache());
}

/// Limits a device's allocator to a fraction of its memory, for `set_memory_fraction_fn`.
#[unsafe(no_mangle)]
pub extern "C" fn memreel_set_memory_fraction(fraction: f64, device: c_int) {
    status(|| state()?.allocator(device)?.set_memory_fraction(fraction));
}

/// Returns the start address of a block's segment and writes the segment's size in bytes, for `set_base_alloc_fn`; null
/// for an unknown address.
///
/// # Safety
/// `size` is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memreel_base_allocation(address: *mut c_void, size: *mut usize) -> *mut c_void {
    let segment = cross(|| segment_of(Address(address.addr() as u64))).ok().flatten();
    let Some((base, bytes)) = segment else { return ptr::null_mut() };
    if !size.is_null() {
        // SAFETY: the caller's promise.
        unsafe { size.write(usize::try_from(bytes).unwrap_or(usize::MAX)) };
    }
    pointer(base)
}

/// Searches all segments. That is slow, but PyTorch only calls this for blocks that it shares with other processes.
fn segment_of(address: Address) -> Result<Option<(Address, u64)>> {
    let mut found = None;
    for allocator in state()?.reel.allocators() {
        allocator.inspect(&mut |segments| {
            let holds = |start: Address, bytes: u64| start <= address && address.0 - start.0 < bytes;
            found = found.or_else(|| {
                let segment = segments.iter().find(|segment| holds(segment.address, segment.size_bytes))?;
                Some((segment.address, segment.size_bytes))
            });
        });
    }
    Ok(found)
}

/// Records that another stream uses a block, for `set_record_stream_fn`. The block is not reused until that stream's
/// work queued so far is done.
///
/// # Safety
/// The stream belongs to the block's device and is not destroyed before the process ends.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memreel_record_stream(address: *mut c_void, stream: *mut c_void) {
    let (address, stream) = (Address(address.addr() as u64), stream.addr().into());
    // SAFETY: the caller's promise.
    status(|| unsafe { state()?.record_stream(address, stream) });
}
