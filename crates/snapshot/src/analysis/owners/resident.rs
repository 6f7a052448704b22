//! The resident memory of one process in one report: each owner's blocks, what `malloc` keeps in addition, and
//! everything else in memory.
//!
//! It is one file because the rows of one report add up only together; nearly half of it are the tests of that.

use std::{cmp::Reverse, collections::BTreeMap, ops::Range, sync::Arc};

use super::{
    earlier_peak::OfOwner,
    mapped::{Mapped, MappedStack, MappedThen, has_one},
    owner_row::RowKind,
};
use crate::{
    analysis::{Owners, state::Lives},
    history::{Life, Moment},
    model::{Snapshot, StackIndex, Text},
    words::{AreaKind, ResidentArea, ResidentReport, SeededMap, paths::base_name},
};

/// glibc's overhead per block, the minimum size of a block with it, and the multiple that sizes are rounded to.
const HEADER_BYTES: u64 = 8;
const LEAST_CHUNK_BYTES: u64 = 32;
const CHUNK_ALIGN: u64 = 16;

/// How far before its block glibc's chunk starts, and what it writes at the start of a free chunk.
const BEFORE_BYTES: u64 = 16;
const FREE_HEADER_BYTES: u64 = 48;

/// The smallest and the largest page size of a kernel; memory is returned to it in whole pages.
const LEAST_PAGE_BYTES: u64 = 4 << 10;
const MOST_PAGE_BYTES: u64 = 64 << 10;

/// The most reports of a process that are used, the last ones: a recorder writes sixteen.
const MOST_REPORTS: usize = 64;

/// The owner of what `malloc` holds outside blocks.
pub(super) const MALLOC_FREE: &str = "malloc, unused";
pub(super) const MALLOC_HEADERS: &str = "malloc, headers";

/// The owner of what the program maps itself, if nothing else is known.
const ANONYMOUS: &str = "anonymous maps";

/// The prefixes of libraries whose allocators programs load instead of the C library's, and the names of these
/// allocators.
const ALLOCATORS: [(&str, &str); 3] =
    [("libjemalloc", "jemalloc"), ("libtcmalloc", "tcmalloc"), ("libmimalloc", "mimalloc")];

/// The process at one report.
#[derive(Clone, Debug)]
pub(super) struct Sight {
    pub(super) time_us: i64,
    /// The report, without its areas.
    pub(super) report: ResidentReport,
    /// The resident bytes, where a page shared by `n` processes counts as an `n`th.
    pub(super) shared_out_bytes: u64,
    /// The resident bytes in huge pages.
    pub(super) huge_bytes: u64,
    pub(super) rows: Vec<SightRow>,
    /// The loaded allocator that replaces the C library's.
    pub(super) allocator: Option<&'static str>,
    /// What `malloc` could return: whole resident pages without any part of a block.
    pub(super) unused_page_bytes: u64,
    /// What each arena of `malloc` holds outside blocks; one of them is the main thread's.
    pub(super) unused_of_arenas: BTreeMap<String, u64>,
}

/// The bytes of one owner, or of one kind.
#[derive(Clone, Debug)]
pub(super) struct SightRow {
    pub(super) kind: RowKind,
    pub(super) owner: Text,
    pub(super) bytes: u64,
    /// The same, where a page shared by `n` processes counts as an `n`th.
    pub(super) shared_out_bytes: u64,
    /// The stack that requested the most of it.
    pub(super) largest: Option<(StackIndex, u64)>,
    /// The stack that mapped the most of it.
    pub(super) mapped: Option<MappedStack>,
    /// The file with the most of it.
    pub(super) file: Option<(String, u64)>,
}

/// Returns a reading for each report of a heap, oldest first. `moment_at` finds the moment of a time. For a time before
/// the events, `earlier` has what owners had at the peak, with the time of the first event.
pub(super) fn sights(
    reports: &[ResidentReport],
    lives: &Lives,
    moment_at: impl Fn(i64) -> Moment,
    judge: &mut Owners<'_>,
    mapped: &Mapped,
    earlier: Option<(&BTreeMap<Text, OfOwner>, i64)>,
) -> Vec<Sight> {
    let mut of_mapped = Owners::new(&mapped.stacks);
    let sight = |report: &ResidentReport| {
        let time_us = i64::try_from(report.time_us).unwrap_or(i64::MAX);
        let mapped = &mut mapped.at(time_us, &mut of_mapped);
        match earlier {
            Some((owners, first_us)) if time_us < first_us => {
                let blocks = Blocks { live: Vec::new(), all: Vec::new() };
                blocks.sight(report, time_us, judge, mapped, Some(owners))
            }
            _ => {
                let blocks = Blocks::of(report, moment_at(time_us), &lives.all);
                blocks.sight(report, time_us, judge, mapped, None)
            }
        }
    };
    reports[reports.len().saturating_sub(MOST_REPORTS)..].iter().map(sight).collect()
}

/// The blocks that are live at one moment, by address.
struct Blocks<'a> {
    live: Vec<&'a Life>,
    /// The addresses of all blocks of the history, rising, if the allocator is not glibc's. Its mapping without a live
    /// block is still the allocator's if it ever had one; glibc's own mappings can be recognised.
    all: Vec<u64>,
}

impl<'a> Blocks<'a> {
    fn of(report: &ResidentReport, moment: Moment, lives: &'a [Life]) -> Blocks<'a> {
        let mut live: Vec<&Life> =
            lives.iter().filter(|life| life.from <= moment && moment < life.until).collect();
        live.sort_unstable_by_key(|life| life.address);
        let is_other = allocator(&report.areas).is_some();
        let mut all: Vec<u64> = lives.iter().filter(|_| is_other).map(|life| life.address.0).collect();
        all.sort_unstable();
        Blocks { live, all }
    }

    /// Returns whether a mapping of an allocator other than glibc's ever had a block.
    fn had_one(&self, range: &Range<u64>) -> bool {
        let first = self.all.partition_point(|address| *address < range.start);
        self.all.get(first).is_some_and(|address| *address < range.end)
    }

    /// Adds rows for what the program mapped itself, by owner, out of the `left` bytes of an area. Returns what is left
    /// then.
    fn add_mapped(
        &self,
        rows: &mut Rows,
        area: &ResidentArea,
        blocks: &[&Life],
        mut left: u64,
        mapped: &mut MappedThen<'_, '_>,
    ) -> u64 {
        let has_blocks = |range: &Range<u64>| has_one(blocks, range) || self.had_one(range);
        for (stack, by, bytes) in mapped.parts(area, has_blocks) {
            let bytes = bytes.min(left);
            left -= bytes;
            match of_area(area) {
                (kind @ RowKind::Shared, owner) => rows.add(kind, owner, bytes, area),
                _ => rows.add(RowKind::Mapped, &format!("maps of {by}"), bytes, area),
            }
            .mapped(stack, bytes);
        }
        left
    }

    /// Returns those that meet a range.
    fn meeting(&self, range: &Range<u64>) -> &[&'a Life] {
        let first = self.live.partition_point(|life| end(life) <= range.start);
        let last = self.live.partition_point(|life| life.address.0 < range.end);
        self.live.get(first..last).unwrap_or_default()
    }

    fn sight(
        &self,
        report: &ResidentReport,
        time_us: i64,
        judge: &mut Owners<'_>,
        mapped: &mut MappedThen<'_, '_>,
        owners: Option<&BTreeMap<Text, OfOwner>>,
    ) -> Sight {
        let (mut rows, mut unused_page_bytes) = (Rows::default(), 0);
        let mut unused_of_arenas = BTreeMap::<String, u64>::new();
        let mut recorder_bytes = report.recorder_bytes;
        let page_bytes = page_bytes(&report.areas);
        for area in &report.areas {
            let blocks = if area.has_blocks() { self.meeting(&area.range) } else { &[] };
            let mut left = area.resident_bytes;
            for life in blocks {
                let bytes = area.resident_of(&(life.address.0..end(life))).min(left);
                left -= bytes;
                let stack = life.stack;
                rows.add(RowKind::Owner, &judge.of(stack), estimated(bytes, life), area).stack(stack, bytes);
            }
            if has_mapped_chunks(area, blocks, page_bytes) {
                let headers = beside_mapped(area, blocks, page_bytes).min(left);
                rows.add(RowKind::Allocator, MALLOC_HEADERS, headers, area);
                left = self.add_mapped(&mut rows, area, blocks, left - headers, mapped);
                let (kind, owner) = of_area(area);
                rows.add(kind, owner, left, area);
            } else if area.kind == AreaKind::Malloc
                || area.name.is_empty()
                    && (!blocks.is_empty() || area.has_blocks() && self.had_one(&area.range))
            {
                left = self.add_mapped(&mut rows, area, blocks, left, mapped);
                let headers =
                    blocks.iter().map(|life| header_bytes(life)).fold(0, u64::saturating_add).min(left);
                rows.add(RowKind::Allocator, MALLOC_HEADERS, headers, area);
                left -= headers;
                // What the recorder requested from `malloc` is in the rest.
                let own = recorder_bytes.min(left);
                rows.add(RowKind::Recorder, "memreel", own, area);
                (left, recorder_bytes) = (left - own, recorder_bytes - own);
                rows.add(RowKind::Allocator, MALLOC_FREE, left, area);
                let arena = arena(area);
                if let Some((name, _)) = arena {
                    add(unused_of_arenas.entry(name.to_owned()).or_default(), left);
                }
                if arena.is_none_or(|(_, is_top)| !is_top) {
                    let pages = whole_pages(area, blocks, page_bytes).saturating_sub(own).min(left);
                    add(&mut unused_page_bytes, pages);
                }
            } else {
                let (kind, owner) = of_area(area);
                if matches!(kind, RowKind::Mapped | RowKind::Shared) || area.has_blocks() {
                    left = self.add_mapped(&mut rows, area, blocks, left, mapped);
                }
                rows.add(kind, owner, left, area).file(&area.name, left);
            }
        }
        owners.into_iter().for_each(|owners| rows.give_to(owners));
        // Which pages have no block is not known for a sampled heap, nor where only sums are known.
        let is_sampled = self.live.iter().any(|life| life.represented_bytes != life.requested_bytes);
        if is_sampled || owners.is_some() {
            (unused_page_bytes, unused_of_arenas) = (0, BTreeMap::new());
        }
        let sum =
            |bytes: fn(&ResidentArea) -> u64| report.areas.iter().map(bytes).fold(0, u64::saturating_add);
        Sight {
            time_us,
            shared_out_bytes: sum(|area| area.shared_out_bytes),
            huge_bytes: sum(|area| area.huge_bytes),
            report: ResidentReport { areas: Vec::new(), ..report.clone() },
            rows: rows.all(mapped.stacks),
            allocator: allocator(&report.areas),
            unused_page_bytes,
            unused_of_arenas,
        }
    }
}

fn end(life: &Life) -> u64 {
    life.address.0.saturating_add(life.requested_bytes)
}

/// Returns a share of bytes.
fn part_of(bytes: u64, part: u128, of: u128) -> u64 {
    // The part is no larger than the whole.
    u64::try_from(u128::from(bytes) * part / of.max(1)).unwrap_or(bytes)
}

/// Returns what a sampled block stands for.
fn estimated(bytes: u64, life: &Life) -> u64 {
    if life.represented_bytes == life.requested_bytes {
        return bytes;
    }
    let all =
        u128::from(bytes) * u128::from(life.represented_bytes) / u128::from(life.requested_bytes.max(1));
    u64::try_from(all).unwrap_or(u64::MAX)
}

/// Returns the bytes that glibc's `malloc` takes for a block beyond its own.
fn header_bytes(life: &Life) -> u64 {
    let chunk = life.requested_bytes.saturating_add(HEADER_BYTES).checked_next_multiple_of(CHUNK_ALIGN);
    chunk.map_or(0, |chunk| chunk.max(LEAST_CHUNK_BYTES) - life.requested_bytes)
}

/// Returns whether all blocks of a mapping are chunks that glibc mapped individually. The kernel merges such a chunk
/// with an adjacent mapping of the program.
fn has_mapped_chunks(area: &ResidentArea, blocks: &[&Life], page_bytes: u64) -> bool {
    let is_mapped = |life: &&Life| life.address.0 % page_bytes == BEFORE_BYTES;
    let may_be = matches!(area.kind, AreaKind::Anonymous | AreaKind::Stack);
    may_be && !blocks.is_empty() && blocks.iter().all(is_mapped)
}

/// Returns the resident part of such chunks' pages outside their blocks.
fn beside_mapped(area: &ResidentArea, blocks: &[&Life], page_bytes: u64) -> u64 {
    let beside = |life: &&Life| {
        let start = life.address.0 - BEFORE_BYTES;
        let pages = start..end(life).checked_next_multiple_of(page_bytes).unwrap_or(u64::MAX);
        area.resident_of(&pages).saturating_sub(area.resident_of(&(life.address.0..end(life))))
    };
    blocks.iter().map(beside).fold(0, u64::saturating_add)
}

fn of_area(area: &ResidentArea) -> (RowKind, &'static str) {
    match area.kind {
        AreaKind::Anonymous if !area.name.is_empty() => (RowKind::Library, "data of libraries"),
        AreaKind::Data => (RowKind::Library, "data of libraries"),
        AreaKind::Code | AreaKind::Kernel => (RowKind::Library, "code of libraries"),
        AreaKind::Stack => (RowKind::Stacks, "stacks of threads"),
        AreaKind::File => (RowKind::Files, "mapped files"),
        AreaKind::Shared => (RowKind::Shared, "shared memory"),
        AreaKind::Recorder => (RowKind::Recorder, "memreel"),
        _ => (RowKind::Mapped, ANONYMOUS),
    }
}

/// The arena of the main thread.
pub(super) const MAIN_ARENA: &str = "[heap]";

/// Returns the arena of `malloc` that an area belongs to, and whether it is the free chunk after all others, which
/// `malloc_trim` returns only for the main arena.
fn arena(area: &ResidentArea) -> Option<(&str, bool)> {
    let is_arena = area.kind == AreaKind::Malloc && area.name.starts_with('[');
    let name = Some(&*area.name).filter(|_| is_arena)?;
    Some(match name.strip_suffix(", top]") {
        Some(of) => (of, true),
        None => (name.strip_suffix(']').filter(|_| name != MAIN_ARENA).unwrap_or(name), false),
    })
}

/// Returns the allocator whose library is among the areas.
fn allocator(areas: &[ResidentArea]) -> Option<&'static str> {
    let libraries = areas.iter().filter(|area| area.kind == AreaKind::Code).map(|area| base_name(&area.name));
    let name_of = |library: &str| ALLOCATORS.iter().find(|(begin, _)| library.starts_with(begin));
    libraries.filter_map(name_of).map(|(_, name)| *name).next()
}

/// Returns the page size of the areas' machine in bytes: all areas, and the holes in them, start and end at a page
/// boundary.
fn page_bytes(areas: &[ResidentArea]) -> u64 {
    let ranges = areas.iter().flat_map(|area| area.holes.iter().chain([&area.range]));
    let ends = ranges.fold(MOST_PAGE_BYTES, |all, range| all | range.start | range.end);
    (1 << ends.trailing_zeros()).max(LEAST_PAGE_BYTES)
}

/// Returns the bytes of resident pages that no block touches, with what precedes each.
fn whole_pages(area: &ResidentArea, blocks: &[&Life], page_bytes: u64) -> u64 {
    let (mut bytes, mut at) = (0, area.range.start);
    let mut add = |from: u64, to: u64| {
        let start = from.checked_next_multiple_of(page_bytes).unwrap_or(to);
        let pages = start..to / page_bytes * page_bytes;
        if pages.start < pages.end {
            bytes += area.resident_of(&pages);
        }
    };
    for life in blocks {
        let start = life.address.0.saturating_sub(BEFORE_BYTES);
        add(at, start);
        let chunk = start.saturating_add(life.requested_bytes).saturating_add(header_bytes(life));
        at = at.max(chunk.saturating_add(FREE_HEADER_BYTES));
    }
    add(at, area.range.end);
    bytes
}

/// Adds numbers from a file, which may have any value.
fn add(sum: &mut u64, bytes: u64) {
    *sum = sum.saturating_add(bytes);
}

/// Returns the stack with the most bytes.
fn largest(stacks: SeededMap<StackIndex, u64>) -> Option<(StackIndex, u64)> {
    stacks.into_iter().max_by_key(|(stack, bytes)| (*bytes, Reverse(*stack)))
}

/// Rows that are summed.
#[derive(Default)]
struct Rows(BTreeMap<(RowKind, Text), Row>);

#[derive(Default)]
struct Row {
    bytes: u64,
    shared_out_bytes: u64,
    stacks: SeededMap<StackIndex, u64>,
    mapped: SeededMap<StackIndex, u64>,
    /// The stack with the most, for blocks that are known only as sums.
    of_sums: Option<MappedStack>,
    files: BTreeMap<String, u64>,
}

impl Row {
    fn stack(&mut self, stack: Option<StackIndex>, bytes: u64) {
        if let Some(stack) = stack {
            add(self.stacks.entry(stack).or_default(), bytes);
        }
    }

    fn mapped(&mut self, stack: StackIndex, bytes: u64) {
        add(self.mapped.entry(stack).or_default(), bytes);
    }

    fn file(&mut self, name: &str, bytes: u64) {
        if !name.is_empty() {
            add(self.files.entry(name.to_owned()).or_default(), bytes);
        }
    }
}

impl Rows {
    fn add(&mut self, kind: RowKind, owner: &str, bytes: u64, area: &ResidentArea) -> &mut Row {
        let row = self.0.entry((kind, owner.into())).or_default();
        self::add(&mut row.bytes, bytes);
        let of_area = u128::from(bytes) * u128::from(area.shared_out_bytes);
        let shared_out = of_area / u128::from(area.resident_bytes.max(1));
        self::add(&mut row.shared_out_bytes, u64::try_from(shared_out).unwrap_or(bytes));
        row
    }

    /// Gives owners the resident part of blocks whose addresses are not known: as much as they have, starting with what
    /// would otherwise be unused. If less is resident, each has the same share of what it requested.
    fn give_to(&mut self, owners: &BTreeMap<Text, OfOwner>) {
        let asked: u128 = owners.values().map(|of| u128::from(of.bytes)).sum();
        let (mut given, mut shared_out) = (0_u64, 0_u64);
        for (kind, name) in [(RowKind::Allocator, MALLOC_FREE), (RowKind::Mapped, ANONYMOUS)] {
            let Some(row) = self.0.get_mut(&(kind, name.into())) else { continue };
            let wanted = u64::try_from(asked.saturating_sub(u128::from(given))).unwrap_or(u64::MAX);
            let bytes = wanted.min(row.bytes);
            let of_it = part_of(row.shared_out_bytes, bytes.into(), row.bytes.into());
            (row.bytes, row.shared_out_bytes) = (row.bytes - bytes, row.shared_out_bytes - of_it);
            (given, shared_out) = (given.saturating_add(bytes), shared_out.saturating_add(of_it));
        }
        for (owner, of) in owners {
            let row = self.0.entry((RowKind::Owner, owner.clone())).or_default();
            row.bytes = part_of(given, of.bytes.into(), asked);
            row.shared_out_bytes = part_of(shared_out, of.bytes.into(), asked);
            row.of_sums = Some(of.largest.clone());
        }
    }

    /// Returns the rows. `stacks` has those that mapped memory.
    fn all(self, stacks: &Arc<Snapshot>) -> Vec<SightRow> {
        let mapped = |(stack, bytes)| MappedStack { stacks: stacks.clone(), stack, bytes };
        let row = |((kind, owner), row): ((RowKind, Text), Row)| SightRow {
            kind,
            owner,
            bytes: row.bytes,
            shared_out_bytes: row.shared_out_bytes,
            largest: largest(row.stacks),
            mapped: row.of_sums.or_else(|| largest(row.mapped).map(mapped)),
            file: row.files.into_iter().max_by_key(|(_, bytes)| *bytes),
        };
        self.0.into_iter().map(row).filter(|row| row.bytes > 0).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::slice;

    use super::*;
    use crate::{
        model::{MappedRange, StackTable},
        words::{Address, StreamId},
    };
    use fastrand::Rng;

    /// Mostly small numbers, and sometimes any.
    fn number(random: &mut Rng) -> u64 {
        if random.u8(..8) == 0 { random.u64(..) } else { random.u64(..1 << 16) }
    }

    fn sight_of(report: &ResidentReport, lives: &[Life], snapshot: &Snapshot, mapped: &Mapped) -> Sight {
        let (mut judge, mut of_mapped) = (Owners::new(snapshot), Owners::new(&mapped.stacks));
        Blocks::of(report, Moment::START, lives).sight(
            report,
            0,
            &mut judge,
            &mut mapped.at(0, &mut of_mapped),
            None,
        )
    }

    /// Any ranges, which a file may have.
    fn mapped(random: &mut Rng) -> Mapped {
        let range = |random: &mut Rng| MappedRange {
            stack: StackTable::EMPTY,
            range: random_range(random),
            times_us: 0..number(random),
        };
        let mut ranges: Vec<MappedRange> = (0..random.usize(..6)).map(|_| range(random)).collect();
        ranges.sort_by_key(|of| of.range.start);
        Mapped { ranges, ..Mapped::default() }
    }

    fn random_range(random: &mut Rng) -> Range<u64> {
        let start = number(random);
        start..start.saturating_add(number(random))
    }

    #[test]
    fn the_page_is_what_all_ranges_are_multiples_of() {
        let area = |range: Range<u64>, hole: Option<Range<u64>>| ResidentArea {
            range,
            holes: Vec::from_iter(hole),
            ..ResidentArea::default()
        };
        let (large, small) = (area(0x20_0000..0x41_0000, None), area(0x7f00_1000..0x7f00_3000, None));
        let hole = area(0x20_0000..0x30_0000, Some(0x21_0000..0x21_4000));
        let several = area(0..0, None);
        assert_eq!(page_bytes(&[large.clone(), several.clone()]), 64 << 10);
        assert_eq!(page_bytes(&[large.clone(), hole]), 16 << 10);
        assert_eq!(page_bytes(&[small, large]), 4 << 10);
        assert_eq!(page_bytes(&[area(1..3, None)]), 4 << 10, "no address of pages");
    }

    /// Of what owners requested, less may be resident, or more including what `malloc` keeps.
    #[test]
    fn owners_get_what_is_resident_of_their_sums() {
        let area = |kind, resident_bytes| ResidentArea { kind, resident_bytes, ..ResidentArea::default() };
        let rows = |malloc: u64, anonymous: u64| {
            let areas = vec![area(AreaKind::Malloc, malloc), area(AreaKind::Anonymous, anonymous)];
            let report = ResidentReport { areas, ..ResidentReport::default() };
            let snapshot = Snapshot::default();
            let mapped = Mapped::default();
            let of = |bytes| {
                let largest = MappedStack { stacks: Arc::default(), stack: StackTable::EMPTY, bytes };
                OfOwner { bytes, n_blocks: 1, n_stacks: 1, largest }
            };
            let owners = BTreeMap::from([("a".into(), of(300)), ("b".into(), of(100))]);
            let lives = Lives::default();
            let earlier = Some((&owners, 1));
            let start = |_| Moment::START;
            let sights = sights(&[report], &lives, start, &mut Owners::new(&snapshot), &mapped, earlier);
            let row = |row: &SightRow| (row.owner.to_string(), row.bytes, row.mapped.is_some());
            sights[0].rows.iter().map(row).collect::<Vec<_>>()
        };
        let row = |owner: &str, bytes| (owner.to_owned(), bytes, ["a", "b"].contains(&owner));
        assert_eq!(rows(10, 190), [row("a", 150), row("b", 50)]);
        assert_eq!(rows(420, 30), [row("a", 300), row("b", 100), row(MALLOC_FREE, 20), row(ANONYMOUS, 30)]);
    }

    #[test]
    fn what_is_mapped_beside_a_large_block_is_not_mallocs() {
        let area = ResidentArea {
            // Pages of 4 KiB.
            range: 0x10_1000..0x20_1000,
            resident_bytes: 0x10_0000,
            ..ResidentArea::default()
        };
        let report = ResidentReport { areas: vec![area], ..ResidentReport::default() };
        let rows = |address: u64| {
            let life = Life {
                address: Address(address),
                requested_bytes: 0x4_0000,
                represented_bytes: 0x4_0000,
                bytes: 0x4_0000,
                stream: StreamId::DEFAULT,
                stack: None,
                from: Moment::START,
                requested: Moment::NEVER,
                until: Moment::NEVER,
            };
            let lives = [life];
            let snapshot = Snapshot::default();
            let sight = sight_of(&report, &lives, &snapshot, &Mapped::default());
            let row = |row: &SightRow| (row.owner.to_string(), row.bytes);
            sight.rows.iter().map(row).filter(|(owner, _)| owner != "unknown").collect::<Vec<_>>()
        };
        let of = |name: &str, bytes: u64| (name.to_owned(), bytes);
        assert_eq!(rows(0x11_0010), [of(MALLOC_HEADERS, 0x1000), of("anonymous maps", 0xB_F000)]);
        // The memory belongs to another allocator: the rest is its own.
        assert_eq!(rows(0x11_0040), [of(MALLOC_HEADERS, 16), of(MALLOC_FREE, 0xB_FFF0)]);
    }

    #[test]
    fn a_mapping_of_another_allocator_is_known_by_its_former_blocks() {
        let heap = ResidentArea {
            range: 0x10_0000..0x20_0000,
            resident_bytes: 0x10_0000,
            ..ResidentArea::default()
        };
        let library = ResidentArea {
            kind: AreaKind::Code,
            name: "/lib/libjemalloc.so.2".into(),
            ..ResidentArea::default()
        };
        let freed = Life {
            address: Address(0x11_0000),
            requested_bytes: 64,
            represented_bytes: 64,
            bytes: 64,
            stream: StreamId::DEFAULT,
            stack: None,
            from: Moment::START,
            requested: Moment::START,
            until: Moment::START,
        };
        let snapshot = Snapshot::default();
        let owner = |areas: Vec<ResidentArea>| {
            let report = ResidentReport { areas, ..ResidentReport::default() };
            let sight = sight_of(&report, slice::from_ref(&freed), &snapshot, &Mapped::default());
            sight.rows.iter().map(|row| row.owner.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(owner(vec![heap.clone(), library]), [MALLOC_FREE]);
        // glibc's mapping for the block is gone, and another mapping of the program is in its place.
        assert_eq!(owner(vec![heap]), ["anonymous maps"]);
    }

    #[test]
    fn the_last_free_chunk_of_an_arena_counts_and_is_not_given_back() {
        let area = |name: &str, start: u64| ResidentArea {
            kind: AreaKind::Malloc,
            name: name.into(),
            range: start..start + 0x4000,
            resident_bytes: 0x4000,
            ..ResidentArea::default()
        };
        let names = ["[heap]", "[arena 1]", "[arena 1, top]", "[arena 12]", ""];
        let areas = names.iter().zip(1..).map(|(name, nth)| area(name, nth * 0x10_0000)).collect();
        let report = ResidentReport { areas, ..ResidentReport::default() };
        let snapshot = Snapshot::default();
        let sight = sight_of(&report, &[], &snapshot, &Mapped::default());
        let unused: Vec<(&str, u64)> =
            sight.unused_of_arenas.iter().map(|(name, bytes)| (&**name, *bytes)).collect();
        assert_eq!(unused, [("[arena 1", 0x8000), ("[arena 12", 0x4000), ("[heap]", 0x4000)]);
        assert_eq!(sight.unused_page_bytes, 0x10_000, "of all but the last chunk");
    }

    #[test]
    fn an_allocator_is_known_by_its_library() {
        let area =
            |kind: AreaKind, name: &str| ResidentArea { kind, name: name.into(), ..ResidentArea::default() };
        let of = |kind, name| allocator(&[area(AreaKind::Code, "/lib/libc.so.6"), area(kind, name)]);
        assert_eq!(of(AreaKind::Code, "/usr/lib/libjemalloc.so.2"), Some("jemalloc"));
        assert_eq!(of(AreaKind::Code, "/opt/libtcmalloc_minimal.so.4"), Some("tcmalloc"));
        assert_eq!(of(AreaKind::Code, "/opt/libmimalloc.so.2.0"), Some("mimalloc"));
        assert_eq!(of(AreaKind::File, "/usr/lib/libjemalloc.so.2"), None, "it is read, and not loaded");
        assert_eq!(of(AreaKind::Code, "/usr/lib/not-libjemalloc.so"), None);
    }

    /// A file may have any numbers; without sampled blocks, the rows add up to the areas.
    #[test]
    fn rows_add_up_to_the_areas_whatever_the_numbers_are() {
        let snapshot = Snapshot::default();
        let mut n_rows = 0;
        for seed in 0..2000 {
            let mut random = Rng::with_seed(seed);
            let area = |random: &mut Rng| ResidentArea {
                kind: AreaKind::ALL[random.usize(..AreaKind::ALL.len())],
                name: if random.bool() { "/lib/a.so".into() } else { String::new() },
                range: random_range(random),
                resident_bytes: number(random),
                shared_out_bytes: number(random),
                huge_bytes: number(random),
                holes: Vec::new(),
            };
            let areas: Vec<ResidentArea> = (0..random.usize(..6)).map(|_| area(&mut random)).collect();
            let report =
                ResidentReport { recorder_bytes: number(&mut random), areas, ..ResidentReport::default() };
            let life = |random: &mut Rng| {
                let bytes = number(random);
                Life {
                    address: Address(number(random)),
                    requested_bytes: bytes,
                    represented_bytes: bytes,
                    bytes,
                    stream: StreamId::DEFAULT,
                    stack: None,
                    from: Moment::START,
                    requested: Moment::NEVER,
                    until: Moment::NEVER,
                }
            };
            let lives: Vec<Life> = (0..random.usize(..20)).map(|_| life(&mut random)).collect();
            let sight = sight_of(&report, &lives, &snapshot, &mapped(&mut random));
            let sum = |all: &mut dyn Iterator<Item = u64>| all.fold(0, u64::saturating_add);
            let of_rows = sum(&mut sight.rows.iter().map(|row| row.bytes));
            assert_eq!(of_rows, sum(&mut report.areas.iter().map(|area| area.resident_bytes)), "seed {seed}");
            n_rows += sight.rows.len();
        }
        assert!(n_rows > 4000, "{n_rows} rows");
    }
}
