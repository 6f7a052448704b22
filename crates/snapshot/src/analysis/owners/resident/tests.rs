//! The rows of one report add up together, whatever a file says.

use std::{slice, sync::Arc};

use super::*;
use crate::{
    analysis::MappedStack,
    model::{MappedRange, Snapshot, StackTable},
    words::{Address, StreamId},
};
use fastrand::Rng;

/// Mostly small numbers, and sometimes any.
fn number(random: &mut Rng) -> u64 {
    if random.u8(..8) == 0 { random.u64(..) } else { random.u64(..1 << 16) }
}

fn sight_of(report: &ResidentReport, lives: &[Life], snapshot: &Snapshot, mapped: &MappedMemory) -> Sight {
    let (mut judge, mut of_mapped) = (Owners::new(snapshot), Owners::new(&mapped.stacks));
    Blocks::of(report, Moment::START, &AddressOrder::of(lives)).sight(
        report,
        0,
        &mut judge,
        &mut mapped.at(0, &mut of_mapped),
        None,
    )
}

/// Any ranges, which a file may have.
fn mapped(random: &mut Rng) -> MappedMemory {
    let range = |random: &mut Rng| MappedRange {
        stack: StackTable::EMPTY,
        range: random_range(random),
        times_us: 0..number(random),
    };
    let mut ranges: Vec<MappedRange> = (0..random.usize(..6)).map(|_| range(random)).collect();
    ranges.sort_by_key(|of| of.range.start);
    MappedMemory { ranges, ..MappedMemory::default() }
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

/// Of what owners asked for, less may be resident, or more with what `malloc` keeps.
#[test]
fn owners_get_what_is_resident_of_their_sums() {
    let area = |kind, resident_bytes| ResidentArea { kind, resident_bytes, ..ResidentArea::default() };
    let rows = |malloc: u64, anonymous: u64| {
        let areas = vec![area(AreaKind::Malloc, malloc), area(AreaKind::Anonymous, anonymous)];
        let report = ResidentReport { areas, ..ResidentReport::default() };
        let snapshot = Snapshot::default();
        let mapped = MappedMemory::default();
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
        let sight = sight_of(&report, &lives, &snapshot, &MappedMemory::default());
        let row = |row: &SightRow| (row.owner.to_string(), row.bytes);
        sight.rows.iter().map(row).filter(|(owner, _)| owner != "unknown").collect::<Vec<_>>()
    };
    let of = |name: &str, bytes: u64| (name.to_owned(), bytes);
    assert_eq!(rows(0x11_0010), [of(MALLOC_HEADERS, 0x1000), of("anonymous mappings", 0xB_F000)]);
    // The memory of another allocator: the rest is its own.
    assert_eq!(rows(0x11_0040), [of(MALLOC_HEADERS, 16), of(MALLOC_FREE, 0xB_FFF0)]);
}

#[test]
fn a_mapping_of_another_allocator_is_known_by_its_former_blocks() {
    let heap =
        ResidentArea { range: 0x10_0000..0x20_0000, resident_bytes: 0x10_0000, ..ResidentArea::default() };
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
        let sight = sight_of(&report, slice::from_ref(&freed), &snapshot, &MappedMemory::default());
        sight.rows.iter().map(|row| row.owner.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(owner(vec![heap.clone(), library]), [MALLOC_FREE]);
    // glibc's mapping for the block is gone, and another of the program is in its place.
    assert_eq!(owner(vec![heap]), ["anonymous mappings"]);
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
    let sight = sight_of(&report, &[], &snapshot, &MappedMemory::default());
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

/// A file may have any numbers; without blocks of which some are sampled, the rows add up to the areas.
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
