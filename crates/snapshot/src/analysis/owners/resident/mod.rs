//! The resident memory of one process at one report: what each owner's blocks have of it, what `malloc` keeps beside them,
//! and what else is in memory.

mod malloc;
mod rows;
#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, ops::Range};

use super::{
    earlier_peak::OfOwner,
    mapped::{MappedMemory, MappedMemoryThen, has_one},
    owner_row::RowKind,
};
use crate::{
    analysis::{Owners, state::Lives},
    history::{Life, Moment},
    model::{StackIndex, Text},
    words::{AreaKind, ResidentArea, ResidentReport, SeededMap},
};
pub(super) use malloc::MAIN_ARENA;
use malloc::{
    allocator, arena, beside_mapped, end, has_mapped_chunks, header_bytes, page_bytes, whole_pages,
};
pub(super) use rows::SightRow;
use rows::{ANONYMOUS, MALLOC_FREE, MALLOC_HEADERS, SightRows, add, shared_out};

/// The most reports of a process that are used, the last ones: a recorder writes sixteen.
const MOST_REPORTS: usize = 64;

/// Returns whether an allocator that is loaded beside the C library's serves a process, whose mappings are its own because they
/// ever had a block.
#[doc(hidden)]
#[must_use]
pub fn has_other_allocator(report: &ResidentReport) -> bool {
    allocator(&report.areas).is_some()
}

/// The process at one report.
#[derive(Clone, Debug)]
pub(super) struct Sight {
    pub(super) time_us: i64,
    /// The report, without its areas.
    pub(super) report: ResidentReport,
    /// The resident bytes, where a page of `n` processes counts as an `n`th.
    pub(super) shared_out_bytes: u64,
    /// The resident bytes in huge pages.
    pub(super) huge_bytes: u64,
    pub(super) rows: Vec<SightRow>,
    /// The allocator that is loaded beside the C library's, and serves in its place.
    pub(super) allocator: Option<&'static str>,
    /// What `malloc` could give back: whole pages that are resident and have nothing of a block.
    pub(super) unused_page_bytes: u64,
    /// What each arena of `malloc` has and no block has; one of them is that of the main thread.
    pub(super) unused_of_arenas: BTreeMap<String, u64>,
}

/// Returns a sight for each report of a heap, oldest first. `moment_at` finds the moment of a time. Of a time before the events,
/// `earlier` is what owners had at the peak, with the time of the first event.
pub(super) fn sights(
    reports: &[ResidentReport],
    lives: &Lives,
    moment_at: impl Fn(i64) -> Moment,
    judge: &mut Owners<'_>,
    mapped: &MappedMemory,
    earlier: Option<(&BTreeMap<Text, OfOwner>, i64)>,
) -> Vec<Sight> {
    let mut of_mapped = Owners::new(&mapped.stacks);
    let order = AddressOrder::of(if reports.is_empty() { &[] } else { &lives.all });
    let sight = |report: &ResidentReport| {
        let time_us = i64::try_from(report.time_us).unwrap_or(i64::MAX);
        let mapped = &mut mapped.at(time_us, &mut of_mapped);
        match earlier {
            Some((owners, first_us)) if time_us < first_us => {
                let blocks = Blocks { live: Vec::new(), all: Vec::new() };
                blocks.sight(report, time_us, judge, mapped, Some(owners))
            }
            _ => {
                let blocks = Blocks::of(report, moment_at(time_us), &order);
                blocks.sight(report, time_us, judge, mapped, None)
            }
        }
    };
    reports[reports.len().saturating_sub(MOST_REPORTS)..].iter().map(sight).collect()
}

/// The blocks that are live at one moment, by address.
struct Blocks<'a> {
    live: Vec<&'a Life>,
    /// The addresses of all blocks of the history, rising, if the allocator is not glibc's. A mapping of that with none of the
    /// live blocks is still the allocator's if it ever had one; glibc's own mappings say what they are.
    all: Vec<u64>,
}

/// All blocks of a history, which are sorted once for all reports.
struct AddressOrder<'a> {
    lives: &'a [Life],
    /// The address of each, rising, and its place.
    by_address: Vec<(u64, u32)>,
}

impl<'a> AddressOrder<'a> {
    fn of(lives: &'a [Life]) -> AddressOrder<'a> {
        let mut by_address: Vec<(u64, u32)> = lives.iter().map(|life| life.address.0).zip(0..).collect();
        by_address.sort_unstable();
        AddressOrder { lives, by_address }
    }

    /// Returns the blocks that are live at a moment, by address.
    fn live_at(&self, moment: Moment) -> Vec<&'a Life> {
        let is_live: Vec<bool> = self.lives.iter().map(|life| life.is_active_at(moment)).collect();
        let places = self.by_address.iter().map(|(_, place)| *place as usize);
        places.filter(|place| is_live[*place]).map(|place| &self.lives[place]).collect()
    }
}

impl<'a> Blocks<'a> {
    fn of(report: &ResidentReport, moment: Moment, order: &AddressOrder<'a>) -> Blocks<'a> {
        let is_other = allocator(&report.areas).is_some();
        let all = order.by_address.iter().filter(|_| is_other).map(|(address, _)| *address).collect();
        Blocks { live: order.live_at(moment), all }
    }

    /// Returns whether a mapping of another allocator than glibc's ever had a block.
    fn had_one(&self, range: &Range<u64>) -> bool {
        let first = self.all.partition_point(|address| *address < range.start);
        self.all.get(first).is_some_and(|address| *address < range.end)
    }

    /// Adds rows of what the program mapped itself of the `left` bytes of an area, by who did. Returns what is left then.
    fn add_mapped(
        &self,
        rows: &mut SightRows,
        area: &ResidentArea,
        blocks: &[&Life],
        mut left: u64,
        mapped: &mut MappedMemoryThen<'_, '_>,
    ) -> u64 {
        let has_blocks = |range: &Range<u64>| has_one(blocks, range) || self.had_one(range);
        for (stack, by, bytes) in mapped.parts(area, has_blocks) {
            let bytes = bytes.min(left);
            left -= bytes;
            match of_area(area) {
                (kind @ RowKind::Shared, owner) => rows.add(kind, owner, bytes, area),
                _ => rows.add(RowKind::Mapped, &format!("mappings of {by}"), bytes, area),
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
        mapped: &mut MappedMemoryThen<'_, '_>,
        owners: Option<&BTreeMap<Text, OfOwner>>,
    ) -> Sight {
        let (mut rows, mut unused_page_bytes) = (SightRows::default(), 0);
        let mut unused_of_arenas = BTreeMap::<String, u64>::new();
        let mut recorder_bytes = report.recorder_bytes;
        let page_bytes = page_bytes(&report.areas);
        for area in &report.areas {
            let blocks = if area.has_blocks() { self.meeting(&area.range) } else { &[] };
            let mut left = area.resident_bytes;
            // By stack: the resident bytes, what they stand for, and that shared out.
            let mut sums: SeededMap<Option<StackIndex>, [u64; 3]> = SeededMap::default();
            for life in blocks {
                let bytes = area.resident_of(&(life.address.0..end(life))).min(left);
                left -= bytes;
                let estimated = estimated(bytes, life);
                let sums = sums.entry(life.stack).or_default();
                let all = [bytes, estimated, shared_out(estimated, area)];
                sums.iter_mut().zip(all).for_each(|(sum, bytes)| add(sum, bytes));
            }
            for (stack, [bytes, estimated, shared_out]) in sums {
                rows.add_sums(RowKind::Owner, judge.of(stack), estimated, shared_out).stack(stack, bytes);
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
                // What the recorder asked of `malloc` is among the rest.
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
        // Which pages no block is in is not known of a sampled heap, nor where only sums are known.
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

/// Returns what a sampled block stands for.
fn estimated(bytes: u64, life: &Life) -> u64 {
    if life.represented_bytes == life.requested_bytes {
        return bytes;
    }
    let all =
        u128::from(bytes) * u128::from(life.represented_bytes) / u128::from(life.requested_bytes.max(1));
    u64::try_from(all).unwrap_or(u64::MAX)
}

fn of_area(area: &ResidentArea) -> (RowKind, &'static str) {
    match area.kind {
        AreaKind::Anonymous if !area.name.is_empty() => (RowKind::Library, "library data"),
        AreaKind::Data => (RowKind::Library, "library data"),
        AreaKind::Code | AreaKind::Kernel => (RowKind::Library, "library code"),
        AreaKind::Stack => (RowKind::Stacks, "thread stacks"),
        AreaKind::File => (RowKind::Files, "mapped files"),
        AreaKind::Shared => (RowKind::Shared, "shared memory"),
        AreaKind::Recorder => (RowKind::Recorder, "memreel"),
        _ => (RowKind::Mapped, ANONYMOUS),
    }
}
