//! The code of a library that stays loaded.

use std::sync::atomic::{AtomicUsize, Ordering};

/// The start of the code, and its size; 0 until it is found.
pub(crate) struct Code {
    start: AtomicUsize,
    bytes: AtomicUsize,
}

impl Code {
    pub(crate) const fn unknown() -> Code {
        Code { start: AtomicUsize::new(0), bytes: AtomicUsize::new(0) }
    }

    /// Finds the code of the library at an address.
    ///
    /// # Safety
    /// An ELF file is mapped there, with its header and its table of segments.
    pub(crate) unsafe fn find(&self, base: usize) {
        let header = std::ptr::with_exposed_provenance::<libc::Elf64_Ehdr>(base);
        // SAFETY: the caller's promise.
        let segments = unsafe {
            let table = header.cast::<u8>().add((*header).e_phoff as usize).cast::<libc::Elf64_Phdr>();
            std::slice::from_raw_parts(table, usize::from((*header).e_phnum))
        };
        let is_code = |segment: &&libc::Elf64_Phdr| {
            segment.p_type == libc::PT_LOAD && segment.p_flags & libc::PF_X != 0
        };
        if let Some(code) = segments.iter().find(is_code) {
            // Relaxed: the bytes publish it.
            self.start.store(base + code.p_vaddr as usize, Ordering::Relaxed);
            self.bytes.store(code.p_memsz as usize, Ordering::Release);
        }
    }

    /// Returns whether an address is in it.
    #[inline]
    pub(crate) fn has(&self, address: usize) -> bool {
        let n_bytes = self.bytes.load(Ordering::Acquire);
        address.wrapping_sub(self.start.load(Ordering::Relaxed)) < n_bytes
    }
}
