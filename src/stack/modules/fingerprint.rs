//! Fingerprints that distinguish one build of a module from another, in memory and on disk.
#![forbid(unsafe_code)]

use std::hash::{Hash, Hasher};

use object::{
    NativeEndian,
    elf::{ELF_NOTE_GNU, FileHeader64, NT_GNU_BUILD_ID, PT_GNU_EH_FRAME, PT_LOAD, PT_NOTE, ProgramHeader64},
    read::elf::{FileHeader, NoteIterator, ProgramHeader},
};
use rustc_hash::FxHasher;

type Elf = FileHeader64<NativeEndian>;
/// A program header; the loader keeps a module's headers in memory as they are in the file.
pub(super) type Header = ProgramHeader64<NativeEndian>;

/// How many bytes are hashed at each end of the unwind table's index. The index is sorted by
/// function, with offsets from its own start, so a moved function changes the entries after it.
const END_BYTES: usize = 32 << 10;

/// How many bytes are hashed from the index on. Linkers put the unwind table after its index, and a function whose
/// frame has another size may change only its rules there.
const TABLE_BYTES: usize = 64 << 10;

/// The build of a module: a hash of its build id.
///
/// Without a build id it is a hash of the program headers, of the unwind table's index, which has the start of every
/// function, and of the start of the table. Both are read-only, so memory and file agree. The time and inode of the
/// file would not suffice: the file may be replaced before the module is first seen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::stack) struct Fingerprint(u64);

impl Fingerprint {
    /// Returns the fingerprint of a module; `read` returns the bytes that a program header describes.
    ///
    /// It neither allocates nor panics.
    pub(super) fn of_module<'a>(
        headers: &[Header],
        read: impl Fn(&Header) -> Option<&'a [u8]>,
    ) -> Fingerprint {
        let of_kind = |kind| headers.iter().filter(move |header| header.p_type(NativeEndian) == kind);
        let mut hasher = FxHasher::default();
        match of_kind(PT_NOTE).find_map(|header| build_id(header, read(header)?)) {
            Some(id) => id.hash(&mut hasher),
            None => {
                of_kind(PT_LOAD).for_each(|header| hash_header(header, &mut hasher));
                let header = of_kind(PT_GNU_EH_FRAME).next();
                let index = header.and_then(&read).unwrap_or_default();
                index[..index.len().min(END_BYTES)].hash(&mut hasher);
                index[index.len().saturating_sub(END_BYTES)..].hash(&mut hasher);
                // Only the index's segment is read, which is read-only.
                let from_index = |load| distance(load, header?).and_then(|from| read(load)?.get(from..));
                let table = of_kind(PT_LOAD).find_map(from_index).unwrap_or_default();
                table[..table.len().min(TABLE_BYTES)].hash(&mut hasher);
            }
        }
        Fingerprint(hasher.finish())
    }

    /// Returns the fingerprint of a file; none if it is not an ELF file with this machine's word size.
    pub(in crate::stack) fn of_file(data: &[u8]) -> Option<Fingerprint> {
        let headers = Elf::parse(data).ok()?.program_headers(NativeEndian, data).ok()?;
        Some(Fingerprint::of_module(headers, |header| header.data(NativeEndian, data).ok()))
    }

    /// Returns the fingerprint as a number that fits an atomic.
    pub(in crate::stack) fn bits(self) -> u64 {
        self.0
    }

    /// Returns the fingerprint with these bits.
    pub(in crate::stack) fn of_number(number: u64) -> Fingerprint {
        Fingerprint(number)
    }
}

fn build_id<'a>(header: &Header, notes: &'a [u8]) -> Option<&'a [u8]> {
    let mut notes = NoteIterator::<Elf>::new(NativeEndian, header.p_align(NativeEndian), notes).ok()?;
    while let Some(note) = notes.next().ok()? {
        if note.name() == ELF_NOTE_GNU && note.n_type(NativeEndian) == NT_GNU_BUILD_ID {
            return Some(note.desc());
        }
    }
    None
}

/// Returns the distance in bytes from the start of a segment to the start of another header's bytes; `None` if these
/// start outside the segment.
fn distance(segment: &Header, inner: &Header) -> Option<usize> {
    let distance = inner.p_vaddr(NativeEndian).checked_sub(segment.p_vaddr(NativeEndian))?;
    (distance < segment.p_filesz(NativeEndian)).then(|| usize::try_from(distance).ok())?
}

fn hash_header(header: &Header, hasher: &mut FxHasher) {
    let numbers = [header.p_offset, header.p_vaddr, header.p_filesz, header.p_memsz];
    numbers.map(|number| number.get(NativeEndian)).hash(hasher);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_not_elf_has_no_fingerprint() {
        let own = std::fs::read("/proc/self/exe").unwrap();
        let whole = Fingerprint::of_file(&own);
        assert!(whole.is_some());
        assert_eq!(Fingerprint::of_file(&[]), None);
        assert_eq!(Fingerprint::of_file(&own[..63]), None, "half a header");
        assert_eq!(Fingerprint::of_file(b"#!/bin/sh\n"), None);
        let mut other_class = own[..64].to_vec();
        other_class[4] = 1;
        assert_eq!(Fingerprint::of_file(&other_class), None, "32 bits");
    }

    fn header(kind: object::elf::ProgramType, offset: u64) -> Header {
        Header {
            p_type: object::U32::new(NativeEndian, kind),
            p_flags: object::U32::new(NativeEndian, object::elf::PF_R),
            p_offset: object::U64::new(NativeEndian, offset),
            p_vaddr: object::U64::new(NativeEndian, offset),
            p_paddr: object::U64::new(NativeEndian, offset),
            p_filesz: object::U64::new(NativeEndian, 8),
            p_memsz: object::U64::new(NativeEndian, 8),
            p_align: object::U64::new(NativeEndian, 4),
        }
    }

    #[test]
    fn without_a_build_id_the_unwind_index_decides() {
        let headers = [header(PT_LOAD, 0), header(PT_GNU_EH_FRAME, 16)];
        let of = |index: &[u8]| Fingerprint::of_module(&headers, |_| Some(index));
        assert_eq!(of(b"12345678"), of(b"12345678"));
        assert_ne!(of(b"12345678"), of(b"12345679"));
        let moved = [header(PT_LOAD, 8), header(PT_GNU_EH_FRAME, 16)];
        assert_ne!(Fingerprint::of_module(&moved, |_| Some(&b"12345678"[..])), of(b"12345678"));
    }

    #[test]
    fn both_ends_of_a_long_index_count() {
        let headers = [header(PT_GNU_EH_FRAME, 0)];
        let of = |index: &[u8]| Fingerprint::of_module(&headers, |_| Some(index));
        let long = vec![7; 4 * END_BYTES];
        for at in [0, END_BYTES - 1, 3 * END_BYTES, 4 * END_BYTES - 1] {
            let mut other = long.clone();
            other[at] = 8;
            assert_ne!(of(&other), of(&long), "byte {at}");
        }
    }

    #[test]
    fn rules_behind_the_index_count() {
        let mut segment = header(PT_LOAD, 0);
        segment.p_filesz = object::U64::new(NativeEndian, 64);
        let headers = [segment, header(PT_GNU_EH_FRAME, 16)];
        let of = |file: &[u8]| {
            Fingerprint::of_module(&headers, |header| {
                let start = header.p_offset(NativeEndian) as usize;
                file.get(start..start + header.p_filesz(NativeEndian) as usize)
            })
        };
        let file = [7; 64];
        for (at, counts) in [(0, false), (16, true), (24, true), (63, true)] {
            let mut other = file;
            other[at] = 8;
            assert_eq!(of(&other) != of(&file), counts, "byte {at}");
        }
    }

    #[test]
    fn a_build_id_alone_decides() {
        let note = |id: &[u8; 4]| {
            let words = [4_u32, 4, NT_GNU_BUILD_ID.0];
            let head: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
            [&head[..], b"GNU\0", id].concat()
        };
        let of = |offset: u64, id: &[u8; 4]| {
            let notes = note(id);
            let headers = [header(PT_LOAD, offset), header(PT_NOTE, 16)];
            Fingerprint::of_module(&headers, |_| Some(&notes[..]))
        };
        assert_eq!(of(0, b"\x01\x02\x03\x04"), of(8, b"\x01\x02\x03\x04"));
        assert_ne!(of(0, b"\x01\x02\x03\x04"), of(0, b"\x01\x02\x03\x05"));
    }
}
