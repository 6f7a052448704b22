//! Pages of memory behind reserved addresses: the driver's virtual-memory calls (caching-allocator.md 6).

use std::{collections::BTreeMap, ffi::c_void, ptr};

use cudarc::driver::sys;

use super::driver::Answer;

/// The reserved ranges of a device, by where they begin.
#[derive(Debug, Default)]
pub(super) struct Ranges(BTreeMap<u64, u64>);

impl Ranges {
    pub(super) fn insert(&mut self, base: u64, page_bytes: u64) {
        self.0.insert(base, page_bytes);
    }

    pub(super) fn remove(&mut self, base: u64) {
        self.0.remove(&base);
    }

    /// The size of the pages of the range that an address lies in.
    pub(super) fn page_bytes(&self, address: u64) -> Option<u64> {
        self.0.range(..=address).next_back().map(|(_, page_bytes)| *page_bytes)
    }
}

/// The driver's `CUmemLocation`. cudarc's name for the second field changes
/// with the version of CUDA, so the three structures are written down here;
/// the assertions below hold their sizes.
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

/// What sizes of memory must be multiples of.
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

/// Reserves addresses; the context is current.
pub(super) fn reserve(bytes: usize) -> Answer<u64> {
    let mut base = 0;
    // SAFETY: the driver chooses the addresses, so nothing is replaced.
    unsafe { sys::cuMemAddressReserve(&raw mut base, bytes, 0, 0, 0).result()? };
    Ok(base)
}

/// Gives reserved addresses back.
///
/// # Safety
/// They came from [`reserve`] with these bytes, and none has memory.
pub(super) unsafe fn release(base: u64, bytes: usize) -> Answer<()> {
    // SAFETY: the caller's promise.
    unsafe { sys::cuMemAddressFree(base, bytes).result() }
}

/// Backs whole pages with memory and lets the device use them. When it fails,
/// none of them has memory.
///
/// # Safety
/// The pages lie in a reserved range and have no memory.
pub(super) unsafe fn map(ordinal: i32, start: u64, bytes: u64, page_bytes: u64) -> Answer<()> {
    for at in (0..bytes).step_by(page_bytes as usize) {
        // SAFETY: a page of the caller's.
        let mapped = unsafe { map_page(ordinal, start + at, page_bytes as usize) };
        if let Err(error) = mapped {
            // SAFETY: the pages before this one have just been mapped, and nobody knows of them.
            unsafe { unmap(start, at, page_bytes) };
            return Err(error);
        }
    }
    let access = Access { location: Location { kind: ON_DEVICE, device: ordinal }, flags: READ_WRITE };
    // SAFETY: the whole part was mapped above; one descriptor is handed over, and counted as one.
    let allowed =
        unsafe { sys::cuMemSetAccess(start, bytes as usize, (&raw const access).cast(), 1).result() };
    if allowed.is_err() {
        // SAFETY: as above.
        unsafe { unmap(start, bytes, page_bytes) }
    }
    allowed
}

/// One page with memory of its own, so that it can go alone: the driver takes
/// back only what was mapped in one piece.
unsafe fn map_page(ordinal: i32, at: u64, bytes: usize) -> Answer<()> {
    let (properties, mut handle) = (properties(ordinal), 0);
    // SAFETY: the pointers are to live values of the expected layout.
    unsafe { sys::cuMemCreate(&raw mut handle, bytes, (&raw const properties).cast(), 0).result()? };
    // SAFETY: the caller's page has no memory; the handle is whole and new.
    let mapped = unsafe { sys::cuMemMap(at, bytes, 0, handle, 0).result() };
    // The mapping holds the memory. Without this the memory would stay taken after it is unmapped.
    // SAFETY: the handle is ours and is not used again.
    let _ = unsafe { sys::cuMemRelease(handle) };
    mapped
}

/// Takes the memory of whole pages away.
///
/// # Safety
/// Each page was mapped by [`map`] with this size, and nothing uses them.
pub(super) unsafe fn unmap(start: u64, bytes: u64, page_bytes: u64) {
    for at in (0..bytes).step_by(page_bytes as usize) {
        // Nobody could do anything about a failure: it leaks one page.
        // SAFETY: the caller's promise.
        let _ = unsafe { sys::cuMemUnmap(start + at, page_bytes as usize).result() };
    }
}
