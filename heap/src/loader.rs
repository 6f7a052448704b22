//! The dynamic loader's own requests, which are not reported.
//!
//! The loader allocates for the storage of threads when a library's own is first used, also when a report uses it. A report of
//! such a request would use that storage again while the loader is about to make it.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Where the loader's code begins, and its bytes; none until it is found.
static START: AtomicUsize = AtomicUsize::new(0);
static BYTES: AtomicUsize = AtomicUsize::new(0);

/// Finds the loader's code.
pub(crate) fn find() {
    // SAFETY: any value may be asked for.
    let base = unsafe { libc::getauxval(libc::AT_BASE) } as usize;
    if base == 0 {
        // The program is the loader, which was given a program to load.
        return;
    }
    let header = std::ptr::with_exposed_provenance::<libc::Elf64_Ehdr>(base);
    // SAFETY: the kernel has mapped the loader there, with its header and its table of segments.
    let segments = unsafe {
        let table = header.cast::<u8>().add((*header).e_phoff as usize).cast::<libc::Elf64_Phdr>();
        std::slice::from_raw_parts(table, usize::from((*header).e_phnum))
    };
    let is_code =
        |segment: &&libc::Elf64_Phdr| segment.p_type == libc::PT_LOAD && segment.p_flags & libc::PF_X != 0;
    if let Some(code) = segments.iter().find(is_code) {
        // Relaxed: the bytes publish it.
        START.store(base + code.p_vaddr as usize, Ordering::Relaxed);
        BYTES.store(code.p_memsz as usize, Ordering::Release);
    }
}

/// Whether a return address is in the loader's code.
#[inline]
pub(crate) fn is_caller(return_address: usize) -> bool {
    let n_bytes = BYTES.load(Ordering::Acquire);
    return_address.wrapping_sub(START.load(Ordering::Relaxed)) < n_bytes
}
