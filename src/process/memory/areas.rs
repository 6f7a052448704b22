//! Determines what each mapping is for: a file, an allocator, the stack of a thread, or unknown.
#![forbid(unsafe_code)]

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
    path::Path,
    slice,
};

use super::{
    arenas::{self, Arenas},
    holes,
    known::Known,
    loaded::{self, Loaded},
    maps::Map,
};
use memreel_snapshot::words::{AreaKind, ResidentArea};

/// The prefix of glibc's names for its arenas, where the kernel supports names for such mappings.
const ARENA_NAME: &str = "[anon: glibc: malloc arena";

/// The most areas with their own addresses. Beyond that, the smallest are merged.
const MOST_AREAS: usize = 4096;

/// Returns the areas by address; those without an address, which are several mappings, come last.
pub(super) fn of(maps: &[Map], process: &Path, known: &Known) -> Vec<ResidentArea> {
    let found = Found::of(maps, process, known);
    let mut arenas = Arenas::of(process);
    let (mut areas, mut sums) = (Vec::new(), Sums::default());
    for (at, map) in maps.iter().enumerate() {
        let before =
            at.checked_sub(1).map(|before| &maps[before]).filter(|of| of.range.end == map.range.start);
        let after = maps.get(at + 1).filter(|after| after.range.start == map.range.end);
        if map.resident_bytes == 0 {
            continue;
        }
        if map.path.is_empty() && known.is_own(&map.range) {
            sums.add(AreaKind::Recorder, "", map.resident_bytes, map);
            continue;
        }
        if (map.path.is_empty() || map.path.starts_with(ARENA_NAME))
            && let Some(part) = arenas.part(map, after)
        {
            areas.extend(of_arena(map, &part, process));
            continue;
        }
        match found.kind(map) {
            AreaKind::Code | AreaKind::Data => {
                // Pages that the loader or the program changed differ from the file.
                let changed = map.anonymous_bytes.min(map.resident_bytes);
                sums.add(AreaKind::Data, &map.path, changed, map);
                sums.add(AreaKind::Code, &map.path, map.resident_bytes - changed, map);
            }
            AreaKind::Anonymous if map.path.is_empty() => {
                let mut all =
                    found.behind_library(map, before).unwrap_or_else(|| found.with_stacks(map, before));
                let stacks = all.iter_mut().filter(|area| area.kind == AreaKind::Stack);
                for stack in stacks {
                    let own = found.own_storage_bytes.min(stack.resident_bytes);
                    stack.resident_bytes -= own;
                    stack.shared_out_bytes = stack.shared_out_bytes.min(stack.resident_bytes);
                    sums.add(AreaKind::Recorder, "", own, map);
                }
                areas.extend(all);
            }
            kind @ (AreaKind::Anonymous | AreaKind::Malloc | AreaKind::Shared) => {
                areas.push(ResidentArea { name: map.path.clone(), ..area(kind, map) });
            }
            kind => sums.add(kind, &map.path, map.resident_bytes, map),
        }
    }
    put_together(&mut areas, &mut sums);
    areas.extend(sums.areas());
    areas
}

/// What is known of a process before its mappings are read.
struct Found<'a> {
    process: &'a Path,
    known: &'a Known,
    /// The paths of the program and its libraries.
    libraries: BTreeSet<&'a str>,
    loaded: BTreeMap<String, Loaded>,
    /// The libraries that are loaded only for the recorder.
    for_own: BTreeSet<String>,
    /// What each thread has for the recorder's libraries, on its stack.
    own_storage_bytes: u64,
}

impl<'a> Found<'a> {
    fn of(maps: &'a [Map], process: &'a Path, known: &'a Known) -> Found<'a> {
        let may_run = maps.iter().filter(|map| map.may_run()).map(|map| &*map.path);
        let libraries: BTreeSet<&str> = may_run.filter(|path| !path.is_empty()).collect();
        let loaded = loaded::all(maps, &libraries, process);
        let for_own = loaded::needed_by_own(&loaded, |path| is_own(path, known));
        let own = loaded.iter().filter(|(path, _)| is_own(path, known) || for_own.contains(&**path));
        let own_storage_bytes = own.map(|(_, library)| library.storage_bytes).fold(0, u64::saturating_add);
        Found { process, known, libraries, loaded, for_own, own_storage_bytes }
    }

    fn kind(&self, map: &Map) -> AreaKind {
        let path = &*map.path;
        let has_prefix = |prefixes: &[&str]| prefixes.iter().any(|prefix| path.starts_with(prefix));
        match path {
            "" => AreaKind::Anonymous,
            "[heap]" => AreaKind::Malloc,
            "[stack]" => AreaKind::Stack,
            _ if is_own(path, self.known) || self.for_own.contains(path) => AreaKind::Recorder,
            _ if has_prefix(&["[anon_shmem:", "/dev/shm/", "/memfd:", "/SYSV", "/dev/zero"]) => {
                AreaKind::Shared
            }
            _ if path.starts_with("[anon:") && path.contains("stack") => AreaKind::Stack,
            _ if path.starts_with("[anon: glibc: malloc") => AreaKind::Malloc,
            _ if path.starts_with("[anon:") => AreaKind::Anonymous,
            _ if path.starts_with('[') => AreaKind::Kernel,
            _ if self.libraries.contains(path) && !map.is_shared() => AreaKind::Code,
            _ => AreaKind::File,
        }
    }

    /// Splits a mapping after a library into the library's data that its file does not have, and the rest; `None` if
    /// nothing of it is the library's.
    fn behind_library(&self, map: &Map, before: Option<&Map>) -> Option<Vec<ResidentArea>> {
        let library = before.filter(|of| self.libraries.contains(&*of.path))?;
        let page_bytes = rustix::param::page_size() as u64;
        let end = self.loaded.get(&library.path).map_or(map.range.end, |loaded| loaded.end);
        let end = end.checked_next_multiple_of(page_bytes)?.min(map.range.end);
        let kind = match self.kind(library) {
            AreaKind::Recorder => AreaKind::Recorder,
            _ => AreaKind::Anonymous,
        };
        let whole = area(AreaKind::Anonymous, map);
        if end <= map.range.start {
            return None;
        }
        let mut all = if end == map.range.end {
            vec![ResidentArea { kind, ..whole }]
        } else {
            parts(&whole, slice::from_ref(&(map.range.start..end)), kind, self.process)
        };
        all[0].name.clone_from(&library.path);
        Some(all)
    }

    /// Returns a mapping as one area, or as several if stacks of threads are in it.
    fn with_stacks(&self, map: &Map, before: Option<&Map>) -> Vec<ResidentArea> {
        let within = |stack: &&Range<u64>| stack.start < map.range.end && map.range.start < stack.end;
        let mut stacks: Vec<Range<u64>> = self.known.stacks.iter().filter(within).cloned().collect();
        if stacks.is_empty() && before.is_some_and(Map::is_guard) {
            // The stack of a thread that captured none starts after a guard.
            stacks.push(map.range.clone());
        }
        stacks.sort_unstable_by_key(|stack| stack.start);
        let whole = area(AreaKind::Anonymous, map);
        if stacks.is_empty() {
            return vec![whole];
        }
        if let [stack] = &stacks[..]
            && stack.start <= map.range.start
            && map.range.end <= stack.end
        {
            return vec![ResidentArea { kind: AreaKind::Stack, ..whole }];
        }
        parts(&whole, &stacks, AreaKind::Stack, self.process)
    }
}

/// Returns whether a file is the recorder's.
fn is_own(path: &str, known: &Known) -> bool {
    let is_within = |folder: &String| path.strip_prefix(&**folder).is_some_and(|rest| rest.starts_with('/'));
    path.contains("/libmemreel_") || known.own_folders.iter().any(is_within)
}

fn area(kind: AreaKind, map: &Map) -> ResidentArea {
    ResidentArea {
        kind,
        range: map.range.clone(),
        resident_bytes: map.resident_bytes,
        shared_out_bytes: map.shared_out_bytes,
        huge_bytes: map.huge_bytes,
        ..ResidentArea::default()
    }
}

/// Returns a part of an arena: what blocks may be in, and the last free chunk as far as it is whole pages.
fn of_arena(map: &Map, part: &arenas::Part, process: &Path) -> Vec<ResidentArea> {
    let page_bytes = rustix::param::page_size() as u64;
    let name = format!("[arena {}]", part.number);
    let whole = ResidentArea { name, ..area(AreaKind::Malloc, map) };
    // It may have grown beyond the mapping as it was read.
    let top = part.top.map(|top| top.next_multiple_of(page_bytes)).filter(|top| *top < map.range.end);
    let Some(top) = top else { return vec![whole] };
    let mut parts = parts(&whole, slice::from_ref(&(top..map.range.end)), AreaKind::Malloc, process);
    let of_top = parts.iter_mut().filter(|part| part.range.start == top);
    of_top.for_each(|of_top| of_top.name = format!("[arena {}, top]", part.number));
    parts
}

/// Divides an area into ranges of a kind and the parts between them. Its resident bytes are divided once its holes are
/// known.
fn parts(whole: &ResidentArea, cut: &[Range<u64>], of_cut: AreaKind, process: &Path) -> Vec<ResidentArea> {
    let (mut parts, mut at) = (Vec::new(), whole.range.start);
    let mut push = |kind, range: Range<u64>| {
        if range.start < range.end {
            parts.push(ResidentArea { kind, range, name: whole.name.clone(), ..ResidentArea::default() });
        }
    };
    for cut in cut {
        let (start, end) = (cut.start.max(at), cut.end.min(whole.range.end));
        push(whole.kind, at..start);
        push(of_cut, start..end);
        at = end.max(at);
    }
    push(whole.kind, at..whole.range.end);
    let holes = holes::of(&whole.range, whole.resident_bytes, process);
    let mut rest = whole.resident_bytes;
    for part in &mut parts {
        part.holes = holes.clone();
        part.resident_bytes = part.resident_of(&part.range).min(rest);
        part.shared_out_bytes = part.resident_bytes;
        part.holes = Vec::new();
        rest -= part.resident_bytes;
    }
    if let Some(last) = parts.last_mut() {
        last.resident_bytes += rest;
        last.shared_out_bytes += rest;
        last.huge_bytes = whole.huge_bytes;
    }
    parts
}

/// Merges the smallest areas if there are too many.
fn put_together(areas: &mut Vec<ResidentArea>, sums: &mut Sums) {
    if areas.len() <= MOST_AREAS {
        return;
    }
    let mut sizes: Vec<u64> = areas.iter().map(|area| area.resident_bytes).collect();
    sizes.sort_unstable_by(|one, other| other.cmp(one));
    let least = sizes[MOST_AREAS];
    areas.retain(|area| {
        let is_kept = area.resident_bytes > least || area.kind == AreaKind::Malloc;
        if !is_kept {
            sums.add_area(area);
        }
        is_kept
    });
}

/// The mappings of one kind and one path, summed.
#[derive(Default)]
struct Sums(BTreeMap<(AreaKind, String), ResidentArea>);

impl Sums {
    fn add(&mut self, kind: AreaKind, path: &str, resident_bytes: u64, map: &Map) {
        if resident_bytes == 0 {
            return;
        }
        // A share of the mapping's bytes.
        let part = |bytes: u64| {
            let part = u128::from(bytes) * u128::from(resident_bytes) / u128::from(map.resident_bytes.max(1));
            u64::try_from(part).unwrap_or(u64::MAX)
        };
        self.add_area(&ResidentArea {
            kind,
            name: path.to_owned(),
            resident_bytes,
            shared_out_bytes: part(map.shared_out_bytes),
            huge_bytes: part(map.huge_bytes),
            ..ResidentArea::default()
        });
    }

    fn add_area(&mut self, area: &ResidentArea) {
        let sum = self.0.entry((area.kind, area.name.clone())).or_default();
        (sum.kind, sum.name) = (area.kind, area.name.clone());
        sum.resident_bytes += area.resident_bytes;
        sum.shared_out_bytes += area.shared_out_bytes;
        sum.huge_bytes += area.huge_bytes;
    }

    fn areas(self) -> impl Iterator<Item = ResidentArea> {
        self.0.into_values()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::memory::OWN;

    fn map(range: Range<u64>, rights: &[u8; 4], path: &str, resident_bytes: u64) -> Map {
        let shared_out_bytes = resident_bytes;
        Map { range, rights: *rights, path: path.into(), resident_bytes, shared_out_bytes, ..Map::default() }
    }

    #[test]
    fn mappings_are_told_apart() {
        let library = "/lib/libx.so";
        let changed = Map { anonymous_bytes: 4096, ..map(0x3000..0x5000, b"rw-p", library, 8192) };
        let maps = [
            map(0x1000..0x3000, b"r-xp", library, 4096),
            changed,
            map(0x5000..0x9000, b"rw-p", "", 4096),
            map(0x10_000..0x20_000, b"rw-p", "[heap]", 4096),
            map(0x30_000..0x31_000, b"---p", "", 0),
            map(0x31_000..0x41_000, b"rw-p", "", 8192),
            map(0x50_000..0x60_000, b"rw-p", "", 4096),
            map(0x70_000..0x80_000, b"r--s", "/data/big", 4096),
            map(0x90_000..0xA0_000, b"rw-s", "/dev/shm/batch (deleted)", 4096),
            map(0xB0_000..0xC0_000, b"rw-s", "/run/1/a.tape", 4096),
            map(0xD0_000..0xE0_000, b"rw-p", "[stack]", 4096),
            map(0xF0_000..0xF1_000, b"r-xp", "[vdso]", 4096),
        ];
        let known = Known { own_folders: vec!["/run/1".into()], ..Known::default() };
        let found: Vec<(AreaKind, String, u64)> = of(&maps, Path::new(OWN), &known)
            .into_iter()
            .map(|area| (area.kind, area.name, area.resident_bytes))
            .collect();
        let expected = [
            (AreaKind::Anonymous, library, 4096),
            (AreaKind::Malloc, "[heap]", 4096),
            (AreaKind::Stack, "", 8192),
            (AreaKind::Anonymous, "", 4096),
            (AreaKind::Shared, "/dev/shm/batch (deleted)", 4096),
            (AreaKind::Stack, "[stack]", 4096),
            (AreaKind::Code, library, 8192),
            (AreaKind::Data, library, 4096),
            (AreaKind::File, "/data/big", 4096),
            (AreaKind::Recorder, "/run/1/a.tape", 4096),
            (AreaKind::Kernel, "[vdso]", 4096),
        ];
        let expected = expected.map(|(kind, name, bytes)| (kind, name.to_owned(), bytes));
        let mut sorted = found.clone();
        sorted.sort();
        let mut wanted = expected.to_vec();
        wanted.sort();
        assert_eq!(sorted, wanted, "{found:#?}");
    }

    #[test]
    fn a_stack_may_be_a_part_of_a_mapping() {
        let whole = map(0x1000..0x9000, b"rw-p", "", 0x4000);
        let known = Known { stacks: Vec::from([Range { start: 0x2000, end: 0x4000 }]), ..Known::default() };
        let parts = Found::of(&[], Path::new(OWN), &known).with_stacks(&whole, None);
        let kinds: Vec<_> = parts.iter().map(|part| (part.kind, part.range.clone())).collect();
        assert_eq!(
            kinds,
            [
                (AreaKind::Anonymous, 0x1000..0x2000),
                (AreaKind::Stack, 0x2000..0x4000),
                (AreaKind::Anonymous, 0x4000..0x9000),
            ]
        );
        assert_eq!(parts.iter().map(|part| part.resident_bytes).sum::<u64>(), 0x4000);
    }

    #[test]
    fn what_is_mapped_behind_a_library_is_not_all_its_data() {
        let page = rustix::param::page_size() as u64;
        let [library, behind] =
            [map(page..3 * page, b"r-xp", "/lib/libx.so", 4096), map(3 * page..9 * page, b"rw-p", "", 4096)];
        let known = Known::default();
        let maps = [library.clone()];
        let of = |end: u64| {
            let mut found = Found::of(&maps, Path::new(OWN), &known);
            found.loaded.insert(library.path.clone(), Loaded { end, ..Loaded::default() });
            let areas = found.behind_library(&behind, Some(&library))?;
            Some(areas.into_iter().map(|area| (area.name, area.range)).collect::<Vec<_>>())
        };
        let data = |range: Range<u64>| (library.path.clone(), range);
        let [data_alone, rest] = [data(3 * page..5 * page), (String::new(), 5 * page..9 * page)];
        assert_eq!(of(4 * page + page / 2), Some(vec![data_alone, rest]));
        assert_eq!(of(10 * page), Some(vec![data(3 * page..9 * page)]));
        assert_eq!(of(2 * page + page / 2), None);
    }
}
