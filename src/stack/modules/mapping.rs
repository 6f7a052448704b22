//! Reads a module that is in memory now, by its program headers.

use std::{ops::Range, ptr, slice};

use object::{
    NativeEndian,
    elf::{PF_R, PT_DYNAMIC, PT_GNU_EH_FRAME, PT_LOAD},
    read::elf::ProgramHeader,
};

use super::fingerprint::{Fingerprint, Header};

/// A module in memory, without copying anything: it is used only while the module is loaded.
#[derive(Clone, Copy, Debug)]
pub(in crate::stack) struct Mapping {
    /// The addresses in memory minus those in the module's file.
    bias: usize,
    headers: *const Header,
    n_headers: usize,
}

impl Mapping {
    /// # Safety
    ///
    /// `headers` points at the `n_headers` program headers of a loaded module, or `n_headers` is
    /// 0; and the mapping is not used after the module is unloaded.
    pub(super) unsafe fn new(bias: usize, headers: *const Header, n_headers: usize) -> Mapping {
        Mapping { bias, headers, n_headers }
    }

    pub(super) fn bias(&self) -> usize {
        self.bias
    }

    /// Returns the address of the program headers, usually in the module's first page.
    #[cfg_attr(not(target_env = "gnu"), allow(dead_code))]
    pub(super) fn address_of_headers(&self) -> usize {
        self.headers.addr()
    }

    /// Returns the segments in memory, in the order of the headers.
    pub(super) fn segments(&self) -> impl Iterator<Item = Range<usize>> {
        self.loads().map(|header| self.range(header, header.p_memsz(NativeEndian)))
    }

    /// Returns the addresses from the first segment to the end of the last.
    pub(in crate::stack) fn span(&self) -> Range<usize> {
        let start = self.segments().map(|segment| segment.start).min().unwrap_or(0);
        start..self.segments().map(|segment| segment.end).max().unwrap_or(0)
    }

    pub(super) fn contains(&self, address: usize) -> bool {
        self.segments().any(|segment| segment.contains(&address))
    }

    /// Returns the address of the unwind table's index, the section `.eh_frame_hdr`.
    pub(in crate::stack) fn unwind_index(&self) -> Option<usize> {
        let is_index = |header: &&Header| header.p_type(NativeEndian) == PT_GNU_EH_FRAME;
        self.headers().iter().find(is_index).map(|header| self.range(header, 0).start)
    }

    /// Returns the address of the dynamic section.
    #[cfg_attr(miri, allow(dead_code))]
    pub(super) fn dynamic_section(&self) -> Option<usize> {
        let is_dynamic = |header: &&Header| header.p_type(NativeEndian) == PT_DYNAMIC;
        self.headers().iter().find(is_dynamic).map(|header| self.range(header, 0).start)
    }

    /// Returns the bytes from an address to the end of the readable segment of the file that contains it.
    pub(in crate::stack) fn bytes_from(&self, address: usize) -> Option<&[u8]> {
        let readable = self.loads().filter(|header| header.p_flags(NativeEndian).contains(PF_R));
        let mut mapped = readable.map(|header| self.range(header, header.p_filesz(NativeEndian)));
        let end = mapped.find(|segment| segment.contains(&address))?.end;
        // SAFETY: the loader mapped this segment readable from a file up to `end`, and it stays
        // mapped while the module is loaded, which `new` asks for. Notes,
        // unwind tables and the read-only segment around them, which are read here, are never written.
        Some(unsafe { slice::from_raw_parts(ptr::with_exposed_provenance(address), end - address) })
    }

    /// Returns the fingerprint of the module's build.
    pub(in crate::stack) fn fingerprint(&self) -> Fingerprint {
        Fingerprint::of_module(self.headers(), |header| {
            self.bytes_from(self.range(header, 0).start)?.get(..header.p_filesz(NativeEndian) as usize)
        })
    }

    fn loads(&self) -> impl Iterator<Item = &Header> {
        self.headers().iter().filter(|header| header.p_type(NativeEndian) == PT_LOAD)
    }

    fn headers(&self) -> &[Header] {
        if self.n_headers == 0 {
            return &[];
        }
        // SAFETY: by the contract of `new`.
        unsafe { slice::from_raw_parts(self.headers, self.n_headers) }
    }

    /// Returns the first `n_bytes` of what a header describes, in memory.
    fn range(&self, header: &Header, n_bytes: u64) -> Range<usize> {
        let start = self.bias.wrapping_add(header.p_vaddr(NativeEndian) as usize);
        start..start.saturating_add(n_bytes as usize)
    }
}
