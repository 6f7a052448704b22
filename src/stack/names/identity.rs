//! What tells one build of a module from another, in memory and on disk.

use std::hash::{DefaultHasher, Hash, Hasher};

use object::{
    NativeEndian,
    elf::{ELF_NOTE_GNU, FileHeader64, NT_GNU_BUILD_ID, PT_GNU_EH_FRAME, PT_LOAD, PT_NOTE, ProgramHeader64},
    read::elf::{FileHeader, NoteIterator, ProgramHeader},
};

type Elf = FileHeader64<NativeEndian>;
/// A program header; the loader keeps those of a module in memory as its file has them.
pub(super) type Header = ProgramHeader64<NativeEndian>;

/// Of the unwind table, no more than this is read: it is the first megabyte
/// of a table sorted by function, and any longer function shifts the rest.
const MAX_PRINT_BYTES: usize = 1 << 20;

/// The build of a module.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Identity {
    /// What its linker wrote for the purpose.
    BuildId(Box<[u8]>),
    /// Where no build id is: a hash of the program headers and of the unwind
    /// table's index, which holds the start of every function and is read-only,
    /// so that memory and file agree on it. Time and inode of the file would not
    /// do: the file may be replaced before the module is first seen.
    Print(u64),
}

impl Identity {
    /// Of a module whose bytes `read` gives by program header.
    pub(super) fn of<'a>(headers: &[Header], read: impl Fn(&Header) -> Option<&'a [u8]>) -> Identity {
        let of_kind = |kind| headers.iter().filter(move |header| header.p_type(NativeEndian) == kind);
        let id = of_kind(PT_NOTE).find_map(|header| build_id(header, read(header)?));
        id.map_or_else(
            || Identity::Print(print(headers, of_kind(PT_GNU_EH_FRAME).find_map(read))),
            Identity::BuildId,
        )
    }

    /// Of a file; none if it is no ELF file for this machine's words.
    pub(super) fn of_file(data: &[u8]) -> Option<Identity> {
        let headers = Elf::parse(data).ok()?.program_headers(NativeEndian, data).ok()?;
        Some(Identity::of(headers, |header| header.data(NativeEndian, data).ok()))
    }
}

fn build_id(header: &Header, notes: &[u8]) -> Option<Box<[u8]>> {
    let mut notes = NoteIterator::<Elf>::new(NativeEndian, header.p_align(NativeEndian), notes).ok()?;
    while let Some(note) = notes.next().ok()? {
        if note.name() == ELF_NOTE_GNU && note.n_type(NativeEndian) == NT_GNU_BUILD_ID {
            return Some(note.desc().into());
        }
    }
    None
}

fn print(headers: &[Header], unwind_index: Option<&[u8]>) -> u64 {
    let mut hasher = DefaultHasher::new();
    for header in headers.iter().filter(|header| header.p_type(NativeEndian) == PT_LOAD) {
        let numbers = [header.p_offset, header.p_vaddr, header.p_filesz, header.p_memsz];
        numbers.map(|number| number.get(NativeEndian)).hash(&mut hasher);
    }
    unwind_index.map(|bytes| &bytes[..bytes.len().min(MAX_PRINT_BYTES)]).hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_elf_file_has_no_identity() {
        let own = std::fs::read("/proc/self/exe").unwrap();
        let whole = Identity::of_file(&own);
        assert!(whole.is_some());
        assert_eq!(Identity::of_file(&[]), None);
        assert_eq!(Identity::of_file(&own[..63]), None, "half a header");
        assert_eq!(Identity::of_file(b"#!/bin/sh\n"), None);
        let mut other_class = own[..64].to_vec();
        other_class[4] = 1;
        assert_eq!(Identity::of_file(&other_class), None, "32 bits");
    }

    #[test]
    fn without_a_build_id_the_unwind_index_tells() {
        let header = |kind: object::elf::ProgramType, offset: u64| Header {
            p_type: object::U32::new(NativeEndian, kind),
            p_flags: object::U32::new(NativeEndian, object::elf::PF_R),
            p_offset: object::U64::new(NativeEndian, offset),
            p_vaddr: object::U64::new(NativeEndian, offset),
            p_paddr: object::U64::new(NativeEndian, offset),
            p_filesz: object::U64::new(NativeEndian, 8),
            p_memsz: object::U64::new(NativeEndian, 8),
            p_align: object::U64::new(NativeEndian, 4),
        };
        let headers = [header(PT_LOAD, 0), header(PT_GNU_EH_FRAME, 16)];
        let of = |index: &'static [u8]| Identity::of(&headers, move |_| Some(index));
        assert_eq!(of(b"12345678"), of(b"12345678"));
        assert_ne!(of(b"12345678"), of(b"12345679"));
        let moved = [header(PT_LOAD, 8), header(PT_GNU_EH_FRAME, 16)];
        assert_ne!(Identity::of(&moved, |_| Some(&b"12345678"[..])), of(b"12345678"));
    }
}
