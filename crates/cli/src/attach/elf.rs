//! Finds the addresses of functions in a process, from the symbols that its mapped files export.

#![forbid(unsafe_code)]

use std::{collections::BTreeMap, fs::File, io::Read};

use object::{Object, ObjectSection, ObjectSegment, ObjectSymbol, read::elf::ElfFile64};

use super::target::{Mapping, Target};
use crate::run::process_root::ProcessRoot;

/// The largest file that is read: an interpreter with full debug information is a tenth of it.
const MAX_BYTES: u64 = 1 << 30;

/// The size of a page, to which the start of a file in memory is rounded down.
const PAGE: u64 = 4096;

/// The exports of a file: names with their addresses in the process.
#[derive(Debug)]
pub(super) struct Exports {
    addresses: BTreeMap<&'static str, u64>,
    /// The constant `Py_Version`.
    pub(super) version: Option<u64>,
}

impl Exports {
    /// Reads the addresses of these exported names in a mapped file; `None` if it cannot be read.
    pub(super) fn of(target: &Target, mapping: &Mapping, names: &[&'static str]) -> Option<Exports> {
        let is_program = target.identity.program.ends_with(mapping.path.trim_start_matches('/'));
        let file = if is_program {
            File::open(format!("/proc/{}/exe", target.process))
        } else {
            ProcessRoot::of(target.process).and_then(|root| root.file(&mapping.path))
        };
        read(file.ok()?, mapping.start, names)
    }

    pub(super) fn address(&self, name: &str) -> Option<u64> {
        self.addresses.get(name).copied()
    }
}

fn read(file: File, start: u64, names: &[&'static str]) -> Option<Exports> {
    let mut data = Vec::new();
    // The file belongs to the process, and may have any size.
    file.take(MAX_BYTES).read_to_end(&mut data).ok()?;
    let file: ElfFile64 = ElfFile64::parse(&*data).ok()?;
    let first = file.segments().map(|segment| segment.address()).min()?;
    let moved_by = start.wrapping_sub(first / PAGE * PAGE);
    let mut exports = Exports { addresses: BTreeMap::new(), version: None };
    for symbol in file.dynamic_symbols().filter(ObjectSymbol::is_definition) {
        let Ok(name) = symbol.name() else { continue };
        if let Some(name) = names.iter().find(|known| **known == name) {
            exports.addresses.insert(name, moved_by.wrapping_add(symbol.address()));
        }
        if name == "Py_Version" {
            exports.version = file.sections().find_map(|section| {
                let bytes = section.data_range(symbol.address(), 8).ok()??;
                Some(u64::from_le_bytes(bytes.try_into().ok()?))
            });
        }
    }
    Some(exports)
}
