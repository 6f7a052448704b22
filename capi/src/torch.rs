//! PyTorch's `CUDAPluggableAllocator`: its two functions, and the hooks it may be given.

use std::{
    ffi::{c_int, c_void},
    ptr,
};

use super::{
    border::{cross, note, status},
    state::state,
    thrown,
};
use memreel::{Address, Inventory, Result, StreamId};

#[inline(always)]
fn alloc(size: usize, device: c_int, stream: StreamId) -> Result<Address> {
    if size == 0 { Ok(Address(0)) } else { state()?.alloc(size as u64, device, stream) }
}

/// An address as the caller's pointer.
pub(super) fn pointer(address: Address) -> *mut c_void {
    ptr::with_exposed_provenance_mut(usize::try_from(address.0).unwrap_or(0))
}

/// A block; null for zero bytes. A failure is thrown as a C++ exception where
/// PyTorch is loaded, which does not look at what an allocator returns.
///
/// # Safety
/// Where PyTorch is loaded, every caller up to a handler can be unwound.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn memreel_malloc(
    size: usize,
    device: c_int,
    stream: *mut c_void,
) -> *mut c_void {
    let error = match cross(|| alloc(size, device, stream.addr().into())) {
        Ok(address) => return pointer(address),
        Err(error) => error,
    };
    note(&error.to_string());
    // SAFETY: the caller lets itself be unwound.
    unsafe { thrown::throw(error) };
    ptr::null_mut()
}

/// Takes a block back. Size and stream may be stale, and are not looked at;
/// the device is where the address is looked up first.
#[unsafe(no_mangle)]
pub extern "C" fn memreel_free(address: *mut c_void, _size: usize, device: c_int, _stream: *mut c_void) {
    free(address, device);
}

/// Takes a block back; what is none of ours leaves its text for `memreel_error`.
#[inline(always)]
pub(super) fn free(address: *mut c_void, device: c_int) {
    if !address.is_null() {
        status(|| state()?.free(Address(address.addr() as u64), device));
    }
}

/// For `set_init_fn`: opens the devices, which the first request would do too.
#[unsafe(no_mangle)]
pub extern "C" fn memreel_init(_device_count: c_int) {
    status(|| state().map(drop));
}

/// For `set_reset_fn`: gives every segment that is not in use back to its device.
#[unsafe(no_mangle)]
pub extern "C" fn memreel_empty_cache() {
    status(|| state()?.reel.empty_cache());
}

/// For `set_memory_fraction_fn`: a device's allocator holds at most that part of its memory.
#[unsafe(no_mangle)]
pub extern "C" fn memreel_set_memory_fraction(fraction: f64, device: c_int) {
    status(|| state()?.allocator(device)?.set_memory_fraction(fraction));
}

/// For `set_base_alloc_fn`: where the segment of a block begins, and its size.
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

/// Looks through all segments: it is asked for blocks that go to another process, not for many.
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

/// For `set_record_stream_fn`: another stream uses a block, which is then not
/// handed out again before that stream has come so far.
///
/// # Safety
/// The stream is one of the block's device, and is not destroyed before the process ends.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn memreel_record_stream(address: *mut c_void, stream: *mut c_void) {
    let (address, stream) = (Address(address.addr() as u64), stream.addr().into());
    // SAFETY: the caller's promise.
    status(|| unsafe { state()?.record_stream(address, stream) });
}
