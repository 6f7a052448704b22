//! What an area of memory says of `malloc`: its chunks beside their blocks, its arenas, and which allocator serves in its place.

use crate::{
    history::Life,
    words::{AreaKind, ResidentArea, paths::base_name},
};

/// What glibc counts for a block beside its bytes, the least that it and its block take, and what their sizes are multiples of.
const HEADER_BYTES: u64 = 8;
const LEAST_CHUNK_BYTES: u64 = 32;
const CHUNK_ALIGN: u64 = 16;

/// Where glibc's chunk begins before its block, and what it writes at the beginning of a chunk that is free.
const BEFORE_BYTES: u64 = 16;
const FREE_HEADER_BYTES: u64 = 48;

/// The least and the largest page of a kernel; what is given back to it is whole pages.
const LEAST_PAGE_BYTES: u64 = 4 << 10;
const MOST_PAGE_BYTES: u64 = 64 << 10;

/// What the libraries of allocators that programs load instead of the C library's begin with, and what these are called.
const ALLOCATORS: [(&str, &str); 3] =
    [("libjemalloc", "jemalloc"), ("libtcmalloc", "tcmalloc"), ("libmimalloc", "mimalloc")];

pub(super) fn end(life: &Life) -> u64 {
    life.address.0.saturating_add(life.requested_bytes)
}

/// Returns what glibc's `malloc` takes for a block beyond its bytes.
pub(super) fn header_bytes(life: &Life) -> u64 {
    let chunk = life.requested_bytes.saturating_add(HEADER_BYTES).checked_next_multiple_of(CHUNK_ALIGN);
    chunk.map_or(0, |chunk| chunk.max(LEAST_CHUNK_BYTES) - life.requested_bytes)
}

/// Returns whether all blocks of a mapping are chunks that glibc mapped for them alone. The kernel makes one mapping of such a
/// chunk and what a program mapped beside it.
pub(super) fn has_mapped_chunks(area: &ResidentArea, blocks: &[&Life], page_bytes: u64) -> bool {
    let is_mapped = |life: &&Life| life.address.0 % page_bytes == BEFORE_BYTES;
    let may_be = matches!(area.kind, AreaKind::Anonymous | AreaKind::Stack);
    may_be && !blocks.is_empty() && blocks.iter().all(is_mapped)
}

/// Returns what is resident of the pages of such chunks, beside their blocks.
pub(super) fn beside_mapped(area: &ResidentArea, blocks: &[&Life], page_bytes: u64) -> u64 {
    let beside = |life: &&Life| {
        let start = life.address.0 - BEFORE_BYTES;
        let pages = start..end(life).checked_next_multiple_of(page_bytes).unwrap_or(u64::MAX);
        area.resident_of(&pages).saturating_sub(area.resident_of(&(life.address.0..end(life))))
    };
    blocks.iter().map(beside).fold(0, u64::saturating_add)
}

/// The arena of the main thread.
pub(crate) const MAIN_ARENA: &str = "[heap]";

/// Returns which arena of `malloc` an area is of, and whether it is the free chunk behind all others, which `malloc_trim` gives
/// back of the main arena alone.
pub(super) fn arena(area: &ResidentArea) -> Option<(&str, bool)> {
    let is_arena = area.kind == AreaKind::Malloc && area.name.starts_with('[');
    let name = Some(&*area.name).filter(|_| is_arena)?;
    Some(match name.strip_suffix(", top]") {
        Some(of) => (of, true),
        None => (name.strip_suffix(']').filter(|_| name != MAIN_ARENA).unwrap_or(name), false),
    })
}

/// Returns the allocator whose library is among the areas.
pub(super) fn allocator(areas: &[ResidentArea]) -> Option<&'static str> {
    let libraries = areas.iter().filter(|area| area.kind == AreaKind::Code).map(|area| base_name(&area.name));
    let name_of = |library: &str| ALLOCATORS.iter().find(|(begin, _)| library.starts_with(begin));
    libraries.filter_map(name_of).map(|(_, name)| *name).next()
}

/// Returns the bytes of a page where the areas are from: all of them, and the holes in them, begin and end with one.
pub(super) fn page_bytes(areas: &[ResidentArea]) -> u64 {
    let ranges = areas.iter().flat_map(|area| area.holes.iter().chain([&area.range]));
    let ends = ranges.fold(MOST_PAGE_BYTES, |all, range| all | range.start | range.end);
    (1 << ends.trailing_zeros()).max(LEAST_PAGE_BYTES)
}

/// Returns the bytes of resident pages that no block touches, with what is before each.
pub(super) fn whole_pages(area: &ResidentArea, blocks: &[&Life], page_bytes: u64) -> u64 {
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
