//! Backs reserved addresses with pages of memory, by the driver's virtual-memory calls (`docs/caching-allocator.md` 6).

use std::{collections::BTreeMap, ffi::c_void, ptr};

use cudarc::driver::sys;

use super::driver::Answer;

/// The reserved ranges of a device: their first address and their page size.
#[derive(Debug, Default)]
pub(super) struct Ranges(BTreeMap<u64, u64>);

impl Ranges {
    pub(super) fn insert(&mut self, base: u64, page_bytes: u64) {
        self.0.insert(base, page_bytes);
    }

    pub(super) fn remove(&mut self, base: u64) {
        self.0.remove(&base);
    }

    /// Returns the page size, in bytes, of the range that contains an address.
    pub(super) fn page_bytes(&self, address: u64) -> Option<u64> {
        self.0.range(..=address).next_back().map(|(_, page_bytes)| *page_bytes)
    }
}

/// The driver's `CUmemLocation`. cudarc's name for the second field changes
/// with the version of CUDA, so the three structures are declared here; the
/// assertions below check their sizes.
#[repr(C)]
struct Location {
    kind: u32,
    device: i32,
}

/// The driver's `CUmemAllocationProp`.
#[repr(C)]
struct Properties {
    kind: u32,
    handle_types: u32,
    location: Location,
    win32: *mut c_void,
    flags: [u8; 8],
}

/// The driver's `CUmemAccessDesc`.
#[repr(C)]
struct Access {
    location: Location,
    flags: u32,
}

const _: () = assert!(size_of::<Properties>() == size_of::<sys::CUmemAllocationProp>());
const _: () = assert!(size_of::<Access>() == size_of::<sys::CUmemAccessDesc>());

const PINNED: u32 = 1;
const ON_DEVICE: u32 = 1;
const READ_WRITE: u32 = 3;

fn properties(ordinal: i32) -> Properties {
    let location = Location { kind: ON_DEVICE, device: ordinal };
    Properties { kind: PINNED, handle_types: 0, location, win32: ptr::null_mut(), flags: [0; 8] }
}

/// Returns the granularity: sizes and addresses of pages must be multiples of this number of bytes.
pub(super) fn granularity(ordinal: i32) -> Answer<u64> {
    let minimum = sys::CUmemAllocationGranularity_flags::CU_MEM_ALLOC_GRANULARITY_MINIMUM;
    let (properties, mut bytes) = (properties(ordinal), 0_usize);
    // SAFETY: both pointers are to live values of the layout that the driver expects.
    unsafe {
        sys::cuMemGetAllocationGranularity(&raw mut bytes, (&raw const properties).cast(), minimum)
            .result()?;
    }
    Ok(bytes as u64)
}

/// Reserves `bytes` bytes of addresses. The caller has made the context current.
pub(super) fn reserve(bytes: usize) -> Answer<u64> {
    let mut base = 0;
    // SAFETY: the driver chooses the addresses, so no mapping is replaced.
    unsafe { sys::cuMemAddressReserve(&raw mut base, bytes, 0, 0, 0).result()? };
    Ok(base)
}

/// Releases reserved addresses.
///
/// # Safety
/// They came from [`reserve`] with these bytes, and none has memory.
pub(super) unsafe fn release(base: u64, bytes: usize) -> Answer<()> {
    // SAFETY: the caller's promise.
    unsafe { sys::cuMemAddressFree(base, bytes).result() }
}

/// Backs whole pages with memory and gives the device access to them. On
/// failure, none of the pages has memory.
///
/// # Safety
/// The pages are in a reserved range and have no memory.
pub(super) unsafe fn map(ordinal: i32, start: u64, bytes: u64, page_bytes: u64) -> Answer<()> {
    for at in (0..bytes).step_by(page_bytes as usize) {
        // SAFETY: one of the caller's pages, which has no memory.
        let mapped = unsafe { map_page(ordinal, start + at, page_bytes as usize) };
        if let Err(error) = mapped {
            // SAFETY: the pages before this one were just mapped, and nothing uses them yet.
            unsafe { unmap(start, at, page_bytes) };
            return Err(error);
        }
    }
    let access = Access { location: Location { kind: ON_DEVICE, device: ordinal }, flags: READ_WRITE };
    // SAFETY: all pages were mapped above; one descriptor is passed with a count of one.
    let allowed =
        unsafe { sys::cuMemSetAccess(start, bytes as usize, (&raw const access).cast(), 1).result() };
    if allowed.is_err() {
        // SAFETY: as above.
        unsafe { unmap(start, bytes, page_bytes) }
    }
    allowed
}

/// Maps one page with its own memory, so that it can be unmapped alone: the driver unmaps only what was mapped in one
/// call.
///
/// # Safety
/// The page is in a reserved range and has no memory.
unsafe fn map_page(ordinal: i32, at: u64, bytes: usize) -> Answer<()> {
    let (properties, mut handle) = (properties(ordinal), 0);
    // SAFETY: the pointers are to live values of the expected layout.
    unsafe { sys::cuMemCreate(&raw mut handle, bytes, (&raw const properties).cast(), 0).result()? };
    // SAFETY: the caller's page has no memory; the handle is whole and new.
    let mapped = unsafe { sys::cuMemMap(at, bytes, 0, handle, 0).result() };
    // The mapping keeps the memory. If the handle were kept, the memory would outlive its mapping.
    // SAFETY: the handle is ours and is not used again.
    let _ = unsafe { sys::cuMemRelease(handle) };
    mapped
}

/// Unmaps whole pages and frees their memory.
///
/// # Safety
/// Each page was mapped by [`map`] with this size, and nothing uses them.
pub(super) unsafe fn unmap(start: u64, bytes: u64, page_bytes: u64) {
    for at in (0..bytes).step_by(page_bytes as usize) {
        // A failure leaks one page; no caller could do better.
        // SAFETY: the caller's promise.
        let _ = unsafe { sys::cuMemUnmap(start + at, page_bytes as usize).result() };
    }
}
