//! The default device: memory of this process from anonymous `mmap`.

use std::ptr;

use rustix::{
    io::Errno,
    mm::{Advice, MapFlags, MprotectFlags, ProtFlags, madvise, mmap_anonymous, mprotect, munmap},
    system::sysinfo,
};

use super::{Device, Mark};
use memreel_snapshot::words::{Address, Error, Result, StreamId};

/// The main memory of this machine as a [`Device`].
///
/// Segments are real, zeroed and writable. The host has no queued work, so every mark is passed immediately.
///
/// ```
/// use memreel::device::{Device, Host};
///
/// assert!(Host::new().total_bytes() > 0);
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Host(());

impl Host {
    /// Creates the device; it takes no memory until a segment is requested.
    #[must_use]
    pub fn new() -> Host {
        Host(())
    }
}

// SAFETY: `mmap` returns page-aligned, zeroed, private, readable and writable
// memory that overlaps no other mapping until `munmap`; pages are at least
// 4096 bytes, and `segment_alloc` exposes the provenance.
unsafe impl Device for Host {
    fn name(&self) -> String {
        "host".into()
    }

    fn total_bytes(&self) -> u64 {
        let info = sysinfo();
        info.totalram as u64 * u64::from(info.mem_unit.max(1))
    }

    fn free_bytes(&self) -> u64 {
        let info = sysinfo();
        info.freeram as u64 * u64::from(info.mem_unit.max(1))
    }

    fn is_host_visible(&self) -> bool {
        true
    }

    fn segment_alloc(&self, bytes: u64) -> Result<Option<Address>> {
        let Ok(len) = usize::try_from(bytes) else { return Ok(None) };
        // SAFETY: a null hint lets the kernel choose, so no mapping is replaced.
        let mapped = unsafe {
            mmap_anonymous(ptr::null_mut(), len, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE)
        };
        match mapped {
            Ok(pointer) => Ok(Some(Address(pointer.expose_provenance() as u64))),
            Err(Errno::NOMEM) => Ok(None),
            Err(error) => Err(Error::device(&self.name(), format!("mmap of {bytes} bytes: {error}"))),
        }
    }

    unsafe fn segment_free(&self, address: Address, bytes: u64) {
        let (Ok(start), Ok(len)) = (usize::try_from(address.0), usize::try_from(bytes)) else { return };
        // SAFETY: the caller guarantees that this is a whole mapping of ours
        // that nothing uses. On failure it stays mapped, which is only a leak.
        let unmapped = unsafe { munmap(ptr::with_exposed_provenance_mut(start), len) };
        debug_assert!(unmapped.is_ok(), "munmap({address}, {bytes}): {unmapped:?}");
    }

    fn range_reserve(&self, bytes: u64, _page_bytes: u64) -> Result<Option<Address>> {
        let Ok(len) = usize::try_from(bytes) else { return Ok(None) };
        // Inaccessible pages use no memory, and with NORESERVE the kernel reserves none for them.
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: a null hint lets the kernel choose, so no mapping is replaced.
        match unsafe { mmap_anonymous(ptr::null_mut(), len, ProtFlags::empty(), flags) } {
            Ok(pointer) => Ok(Some(Address(pointer.expose_provenance() as u64))),
            Err(Errno::NOMEM) => Ok(None),
            Err(error) => {
                Err(Error::device(&self.name(), format!("mmap of {bytes} bytes of addresses: {error}")))
            }
        }
    }

    unsafe fn range_release(&self, address: Address, bytes: u64) {
        // SAFETY: to the kernel a range is a mapping like a segment, and the
        // caller guarantees that it is ours and that nothing uses it.
        unsafe { self.segment_free(address, bytes) }
    }

    unsafe fn range_map(&self, address: Address, bytes: u64) -> Result<bool> {
        let Some((start, len)) = pages(address, bytes) else { return Ok(false) };
        // SAFETY: the caller guarantees that these are pages of a range of ours
        // without memory; no pointer refers to them yet.
        match unsafe { mprotect(start, len, MprotectFlags::READ | MprotectFlags::WRITE) } {
            Ok(()) => Ok(true),
            Err(Errno::NOMEM) => Ok(false),
            Err(error) => Err(Error::device(&self.name(), format!("mprotect of {bytes} bytes: {error}"))),
        }
    }

    unsafe fn range_unmap(&self, address: Address, bytes: u64) {
        let Some((start, len)) = pages(address, bytes) else { return };
        // SAFETY: the caller guarantees that these pages are ours and that
        // nothing uses them. The advice returns the memory at once; pages that
        // are mapped again read as zero.
        let unmapped = unsafe {
            madvise(start, len, Advice::LinuxDontNeed)
                .and_then(|()| mprotect(start, len, MprotectFlags::empty()))
        };
        debug_assert!(unmapped.is_ok(), "unmapping {bytes} bytes at {address}: {unmapped:?}");
    }

    fn mark(&self, _stream: StreamId) -> Result<Mark> {
        Ok(Mark(0))
    }

    fn is_passed(&self, _mark: Mark) -> Result<bool> {
        Ok(true)
    }

    fn wait(&self, _mark: Mark) -> Result<()> {
        Ok(())
    }

    unsafe fn forget(&self, _mark: Mark) {}
}

/// Returns the pointer and the length that the kernel's calls take; `None` if they do not fit into `usize`.
fn pages(address: Address, bytes: u64) -> Option<(*mut std::ffi::c_void, usize)> {
    let start = usize::try_from(address.0).ok()?;
    Some((ptr::with_exposed_provenance_mut(start), usize::try_from(bytes).ok()?))
}
