//! Reads a library in memory: where it ends, how much thread-local storage it needs, and which other libraries it
//! needs.
#![forbid(unsafe_code)]

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::File,
    os::unix::fs::FileExt,
    path::Path,
};

use object::{
    NativeEndian,
    elf::{DT_NEEDED, DT_SONAME, DT_STRTAB, DynamicTag, FileHeader64, PT_DYNAMIC, PT_LOAD, PT_TLS},
    pod,
    read::elf::{FileHeader as _, ProgramHeader as _},
};

use super::maps::Map;

/// The number of words that are read from a library's start: its header, and the program headers, which linkers put
/// after it.
const HEAD_WORDS: usize = 512;

/// The most entries that are read from a dynamic section.
const MOST_ENTRIES: usize = 256;

/// The most bytes of a library's name.
const MOST_NAME_BYTES: usize = 128;

/// The facts about a library that are in its memory.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Loaded {
    /// The end of its data, including what is not in its file.
    pub(super) end: u64,
    /// The bytes of thread-local storage that each thread has for it.
    pub(super) storage_bytes: u64,
    /// The name by which other libraries refer to it.
    pub(super) name: String,
    pub(super) needed: Vec<String>,
}

/// Returns all libraries of a process by path, and the program. Libraries that cannot be read are left out. Other files
/// are not read: reading a page makes it resident, and devices are mapped too.
pub(super) fn all(maps: &[Map], libraries: &BTreeSet<&str>, process: &Path) -> BTreeMap<String, Loaded> {
    let mut all = BTreeMap::new();
    let Ok(memory) = File::open(process.join("mem")) else { return all };
    for map in maps.iter().filter(|map| libraries.contains(&*map.path) && map.path.starts_with('/')) {
        // The first mapping of a library has its headers.
        if !all.contains_key(&map.path)
            && let Some(loaded) = read(&memory, map.range.start)
        {
            all.insert(map.path.clone(), loaded);
        }
    }
    all
}

/// Returns the libraries that only libraries of `own` need.
pub(super) fn needed_by_own(
    all: &BTreeMap<String, Loaded>,
    is_own: impl Fn(&str) -> bool,
) -> BTreeSet<String> {
    let needed: BTreeSet<&str> = all.values().flat_map(|of| of.needed.iter().map(|name| &**name)).collect();
    let paths = || all.keys().map(|path| &**path);
    // The program, and the libraries that it opened itself.
    let is_root = |path: &&str| !is_own(path) && !needed.contains(&*all[*path].name);
    let of_program = reached(all, paths().filter(is_root).collect());
    let mut of_own = reached(all, paths().filter(|path| is_own(path)).collect());
    of_own.retain(|path| !of_program.contains(path));
    of_own
}

/// Returns the libraries that some libraries need, directly or not.
fn reached<'a>(all: &'a BTreeMap<String, Loaded>, mut next: Vec<&'a str>) -> BTreeSet<String> {
    let by_name: BTreeMap<&str, &str> =
        all.iter().filter(|(_, of)| !of.name.is_empty()).map(|(path, of)| (&*of.name, &**path)).collect();
    let mut reached = BTreeSet::<String>::new();
    while let Some(path) = next.pop() {
        let needed = all[path].needed.iter().filter_map(|name| by_name.get(&**name).copied());
        next.extend(needed.filter(|path| reached.insert((*path).to_owned())));
    }
    reached
}

fn read(memory: &File, start: u64) -> Option<Loaded> {
    let head = words(memory, start, HEAD_WORDS)?;
    let head = pod::bytes_of_slice(&head);
    let endian = NativeEndian;
    let headers = FileHeader64::<NativeEndian>::parse(head).ok()?.program_headers(endian, head).ok()?;
    let of_kind = |kind| headers.iter().filter(move |header| header.p_type(endian) == kind);
    // The address in memory minus the address in the file. The first part has the headers.
    let lowest = of_kind(PT_LOAD).map(|header| header.p_vaddr(endian)).min()?;
    let moved = start.wrapping_sub(lowest);
    let mut loaded = Loaded {
        end: of_kind(PT_LOAD)
            .map(|part| part.p_vaddr(endian).wrapping_add(part.p_memsz(endian)).wrapping_add(moved))
            .max()?,
        storage_bytes: of_kind(PT_TLS).map(|header| header.p_memsz(endian)).sum(),
        ..Loaded::default()
    };
    if let Some(header) = of_kind(PT_DYNAMIC).next() {
        let n = usize::try_from(header.p_memsz(endian)).unwrap_or(0) / size_of::<[u64; 2]>();
        loaded.read_needed(memory, moved, header.p_vaddr(endian), n.min(MOST_ENTRIES));
    }
    Some(loaded)
}

impl Loaded {
    fn read_needed(&mut self, memory: &File, moved: u64, at: u64, n_entries: usize) -> Option<()> {
        let entries = words(memory, at.wrapping_add(moved), n_entries * 2)?;
        let all = || entries.chunks_exact(2).map(|entry| (DynamicTag(entry[0].cast_signed()), entry[1]));
        let strings = all().find(|(tag, _)| *tag == DT_STRTAB)?.1;
        // glibc's loader has converted it to an address; other loaders leave the file's value.
        let strings = if strings < moved { strings + moved } else { strings };
        let text = |(_, at): (DynamicTag, u64)| text(memory, strings.wrapping_add(at));
        self.name = all().find(|(tag, _)| *tag == DT_SONAME).and_then(text).unwrap_or_default();
        self.needed = all().filter(|(tag, _)| *tag == DT_NEEDED).filter_map(text).collect();
        Some(())
    }
}

fn words(memory: &File, at: u64, n: usize) -> Option<Vec<u64>> {
    let mut words = vec![0; n];
    memory.read_exact_at(pod::bytes_of_slice_mut(&mut words), at).ok()?;
    Some(words)
}

fn text(memory: &File, at: u64) -> Option<String> {
    let mut text = [0; MOST_NAME_BYTES];
    memory.read_exact_at(&mut text, at).ok()?;
    let text = text.split(|byte| *byte == 0).next()?;
    String::from_utf8(text.to_vec()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_recorder_alone_needs_is_found() {
        let library = |name: &str, needed: &[&str]| Loaded {
            name: name.into(),
            needed: needed.iter().map(|name| (*name).to_owned()).collect(),
            ..Loaded::default()
        };
        let all = BTreeMap::from([
            ("/bin/program".to_owned(), library("", &["libc"])),
            ("/lib/own".to_owned(), library("own", &["libgcc", "libm", "libc"])),
            ("/lib/libgcc".to_owned(), library("libgcc", &["libc"])),
            ("/lib/libm".to_owned(), library("libm", &["libc"])),
            ("/lib/libc".to_owned(), library("libc", &[])),
            ("/lib/opened".to_owned(), library("opened", &["libm"])),
        ]);
        let found = needed_by_own(&all, |path| path == "/lib/own");
        assert_eq!(found.into_iter().collect::<Vec<_>>(), ["/lib/libgcc"]);
    }

    #[cfg(all(target_os = "linux", target_pointer_width = "64", not(miri)))]
    #[test]
    fn the_libraries_of_this_process_are_read() {
        use crate::process::memory::{OWN, maps};

        let maps = maps::read(Path::new(OWN)).unwrap();
        let libraries = maps.iter().filter(|map| map.may_run()).map(|map| &*map.path).collect();
        let all = all(&maps, &libraries, Path::new(OWN));
        let program = std::env::current_exe().unwrap();
        let of_program = &all[program.to_str().unwrap()];
        assert!(of_program.needed.iter().any(|name| name == "libc.so.6"), "{of_program:?}");
        let (path, libc) = all.iter().find(|(_, of)| of.name == "libc.so.6").unwrap();
        let last = maps.iter().rfind(|map| map.path == **path).unwrap();
        assert!(libc.end > last.range.start && libc.storage_bytes > 0, "{libc:?}");
    }
}
