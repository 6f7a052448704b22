//! What each mapping is for: a file, an allocator, the stack of a thread, or something that the kernel does not know.
#![forbid(unsafe_code)]

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::File,
    ops::Range,
    os::unix::fs::FileExt,
    path::Path,
};

use super::{holes, known::Known, maps::Map};
use memreel_snapshot::words::{AreaKind, ResidentArea};

/// glibc's arenas begin at multiples of this, and are not longer.
const ARENA_BYTES: u64 = 64 << 20;

/// The most areas with a place of their own. With more, the smallest are put together.
const MOST_AREAS: usize = 4096;

/// Returns the areas, rising; those without a place, which are several mappings, come last.
pub(super) fn of(maps: &[Map], process: &Path, known: &Known) -> Vec<ResidentArea> {
    let libraries: BTreeSet<&str> = maps
        .iter()
        .filter(|map| map.may_run())
        .map(|map| &*map.path)
        .filter(|path| !path.is_empty())
        .collect();
    let memory = File::open(process.join("mem")).ok();
    let (mut areas, mut sums) = (Vec::new(), Sums::default());
    for (at, map) in maps.iter().enumerate() {
        let before =
            at.checked_sub(1).map(|before| &maps[before]).filter(|of| of.range.end == map.range.start);
        let after = maps.get(at + 1).filter(|after| after.range.start == map.range.end);
        if map.resident_bytes == 0 {
            continue;
        }
        let kind = kind(map, &libraries, known);
        match kind {
            AreaKind::Code | AreaKind::Data => {
                // What the loader or the program changed is not as the file has it.
                let changed = map.anonymous_bytes.min(map.resident_bytes);
                sums.add(AreaKind::Data, &map.path, changed, map);
                sums.add(AreaKind::Code, &map.path, map.resident_bytes - changed, map);
            }
            AreaKind::Anonymous if map.path.is_empty() => {
                if is_arena(map, after, memory.as_ref()) {
                    areas.push(area(AreaKind::Malloc, map));
                } else if let Some(library) = before.filter(|of| libraries.contains(&*of.path)) {
                    // What a library has of data that its file does not have comes behind what it has.
                    areas.push(ResidentArea { name: library.path.clone(), ..area(AreaKind::Anonymous, map) });
                } else {
                    areas.extend(with_stacks(map, before, process, known));
                }
            }
            kind if kind.has_blocks() => {
                areas.push(ResidentArea { name: map.path.clone(), ..area(kind, map) });
            }
            kind => sums.add(kind, &map.path, map.resident_bytes, map),
        }
    }
    put_together(&mut areas, &mut sums);
    areas.extend(sums.areas());
    areas
}

fn kind(map: &Map, libraries: &BTreeSet<&str>, known: &Known) -> AreaKind {
    let path = &*map.path;
    let is_own = |folder: &String| path.strip_prefix(&**folder).is_some_and(|rest| rest.starts_with('/'));
    let has_prefix = |prefixes: &[&str]| prefixes.iter().any(|prefix| path.starts_with(prefix));
    match path {
        "" => AreaKind::Anonymous,
        "[heap]" => AreaKind::Malloc,
        "[stack]" => AreaKind::Stack,
        _ if path.contains("/libmemreel_") || known.own_folders.iter().any(is_own) => AreaKind::Recorder,
        _ if has_prefix(&["[anon_shmem:", "/dev/shm/", "/memfd:", "/SYSV", "/dev/zero"]) => AreaKind::Shared,
        _ if path.starts_with("[anon:") && path.contains("stack") => AreaKind::Stack,
        _ if path.starts_with("[anon: glibc: malloc") => AreaKind::Malloc,
        _ if path.starts_with("[anon:") => AreaKind::Anonymous,
        _ if path.starts_with('[') => AreaKind::Kernel,
        _ if libraries.contains(path) && !map.is_shared() => AreaKind::Code,
        _ => AreaKind::File,
    }
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

/// Returns whether a mapping is one of glibc's arenas: it begins where they do, and says there how long it is.
fn is_arena(map: &Map, after: Option<&Map>, memory: Option<&File>) -> bool {
    let bytes = map.range.end - map.range.start;
    let is_at_place = map.range.start.is_multiple_of(ARENA_BYTES) && bytes <= ARENA_BYTES;
    if !is_at_place || bytes < ARENA_BYTES && !after.is_some_and(Map::is_guard) {
        return false;
    }
    // The third and the fourth word are the bytes in use, and those that can be read and written.
    let mut words = [0_u8; 16];
    let is_read = memory.is_some_and(|memory| memory.read_exact_at(&mut words, map.range.start + 16).is_ok());
    let [used, writable] =
        [0, 8].map(|at| u64::from_ne_bytes(words[at..at + 8].try_into().unwrap_or([0; 8])));
    is_read && writable == bytes && used <= bytes
}

/// Returns a mapping as an area, or as several if stacks of threads are in it.
fn with_stacks(map: &Map, before: Option<&Map>, process: &Path, known: &Known) -> Vec<ResidentArea> {
    let within = |stack: &&Range<u64>| stack.start < map.range.end && map.range.start < stack.end;
    let mut stacks: Vec<Range<u64>> = known.stacks.iter().filter(within).cloned().collect();
    if stacks.is_empty() && before.is_some_and(Map::is_guard) {
        // The stack of a thread that captured none begins behind a guard.
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
    parts(&whole, &stacks, process)
}

/// Divides an area into stacks and what is between them. Its resident bytes are divided when its holes are known.
fn parts(whole: &ResidentArea, stacks: &[Range<u64>], process: &Path) -> Vec<ResidentArea> {
    let (mut parts, mut at) = (Vec::new(), whole.range.start);
    let mut push = |kind, range: Range<u64>| {
        if range.start < range.end {
            parts.push(ResidentArea { kind, range, ..ResidentArea::default() });
        }
    };
    for stack in stacks {
        let (start, end) = (stack.start.max(at), stack.end.min(whole.range.end));
        push(AreaKind::Anonymous, at..start);
        push(AreaKind::Stack, start..end);
        at = end.max(at);
    }
    push(AreaKind::Anonymous, at..whole.range.end);
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

/// Puts the smallest areas together if there are too many.
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

/// Mappings of one kind and one path together.
#[derive(Default)]
struct Sums(BTreeMap<(AreaKind, String), ResidentArea>);

impl Sums {
    fn add(&mut self, kind: AreaKind, path: &str, resident_bytes: u64, map: &Map) {
        if resident_bytes == 0 {
            return;
        }
        // A share of what the mapping shares out.
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
        let parts = with_stacks(&whole, None, Path::new(OWN), &known);
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
}
