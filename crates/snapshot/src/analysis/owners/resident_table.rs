//! The table of the resident memory of processes, which adds up to what the kernel reports.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    mapped::MappedStack,
    owner_part::OwnerPart,
    owner_row::{DeviceOwners, HostFigures, OwnerRow, OwnerStack, RowKind, TOGETHER_US},
    resident::{MAIN_ARENA, Sight, SightRow},
};
use crate::model::Text;

/// Returns the table of parts that are the heaps of processes; `None` if the kernel reported of none of them.
pub(super) fn table(parts: &[OwnerPart<'_>]) -> Option<DeviceOwners> {
    let latest = parts.iter().filter_map(|part| part.sights.last()).map(|sight| sight.time_us).max()?;
    let points = [now(parts, latest), peak(parts)];
    let is_alone = parts.len() == 1;
    let used = points.each_ref().map(|point| bytes_of(point, is_alone));
    // The kernel knows the peak of a process; the readings are close to it.
    let peak_bytes = match &points[1][..] {
        [(_, sight)] if is_alone => parts[0].sights.last().unwrap_or(sight).report.peak_bytes.max(used[1]),
        _ => used[1],
    };
    let mut rows = rows(parts, &points);
    let known = |bytes: fn(&OwnerRow) -> Option<i128>| rows.iter().filter_map(bytes).sum::<i128>();
    let (known_now, known_peak) = (known(|row| row.now_bytes), known(|row| row.peak_bytes));
    rows.push(OwnerRow {
        owner: "unexplained".to_owned(),
        kind: RowKind::Unexplained,
        now_bytes: Some(i128::from(used[0]) - known_now),
        peak_bytes: Some(i128::from(peak_bytes) - known_peak),
        largest: None,
        largest_now: None,
        mapped: None,
        mapped_now: None,
        largest_file: None,
        largest_file_bytes: None,
    });
    let time =
        |point: &[(usize, &Sight)]| u64::try_from(point.iter().map(|(_, sight)| sight.time_us).max()?).ok();
    let first = &parts[0];
    let total = points[0].iter().map(|(_, sight)| &sight.report);
    let total =
        total.map(|report| report.group.and_then(|of| of.limit_bytes).unwrap_or(report.machine_bytes));
    Some(DeviceOwners {
        device: first.device,
        name: first.name.clone(),
        uuid: first.uuid.clone(),
        parts: parts.iter().map(|part| part.number).collect::<BTreeSet<_>>().into_iter().collect(),
        total_bytes: total.filter(|bytes| *bytes > 0).min(),
        used_now_bytes: Some(used[0]),
        used_peak_bytes: Some(peak_bytes),
        now_us: time(&points[0]),
        peak_us: time(&points[1]),
        is_of_blocks: true,
        n_rounded: 0,
        rounded_bytes: 0,
        reserved_address_bytes: 0,
        reserved_address_peak_bytes: 0,
        rows,
        outside: Vec::new(),
        host: Some(figures(parts, &points[0])),
    })
}

/// A moment of a run: the last reading of each process that exists, with the place of its part.
type Point<'a> = Vec<(usize, &'a Sight)>;

/// Returns the last looks at the processes that end together with the last one.
fn now<'a>(parts: &'a [OwnerPart<'_>], latest: i64) -> Point<'a> {
    let last = parts.iter().enumerate().filter_map(|(at, part)| Some((at, part.sights.last()?)));
    last.filter(|(_, sight)| sight.time_us >= latest.saturating_sub(TOGETHER_US)).collect()
}

/// Returns the looks of the moment at which all processes together had the most.
fn peak<'a>(parts: &'a [OwnerPart<'_>]) -> Point<'a> {
    let at = |time_us: i64| -> Point<'a> {
        let is_there = |part: &&OwnerPart<'_>| part.last_us.is_none_or(|last_us| time_us <= last_us);
        let sight = |part: &'a OwnerPart<'_>| {
            let n = part.sights.partition_point(|sight| sight.time_us <= time_us);
            n.checked_sub(1).map(|last| &part.sights[last])
        };
        let there = parts.iter().enumerate().filter(|(_, part)| is_there(part));
        there.filter_map(|(at, part)| Some((at, sight(part)?))).collect()
    };
    let times: BTreeSet<i64> =
        parts.iter().flat_map(|part| part.sights.iter().map(|sight| sight.time_us)).collect();
    let points = times.into_iter().map(at);
    points.max_by_key(|point| bytes_of(point, parts.len() == 1)).unwrap_or_default()
}

/// Returns the resident bytes of a point; memory that several processes share counts once.
fn bytes_of(point: &[(usize, &Sight)], is_alone: bool) -> u64 {
    let of_sight = |(_, sight): &(usize, &Sight)| match is_alone {
        true => sight.report.resident_bytes,
        false => sight.shared_out_bytes,
    };
    point.iter().map(of_sight).fold(0, u64::saturating_add)
}

/// What one row has at the two points.
#[derive(Default)]
struct Sums {
    bytes: [i128; 2],
    /// The largest stacks and files at each point, with the part of the stack.
    stacks: [Option<OwnerStack>; 2],
    mapped: [Option<MappedStack>; 2],
    files: [Option<(String, u64)>; 2],
}

fn rows(parts: &[OwnerPart<'_>], points: &[Point<'_>; 2]) -> Vec<OwnerRow> {
    let mut sums: BTreeMap<(RowKind, Text), Sums> = BTreeMap::new();
    for (at, point) in points.iter().enumerate() {
        for (part, sight) in point {
            for row in &sight.rows {
                let stacks_of = parts[*part].stacks_of;
                let sums = sums.entry((row.kind, row.owner.clone())).or_default();
                sums.add(at, stacks_of, row, parts.len() == 1);
            }
        }
    }
    let mut rows: Vec<OwnerRow> =
        sums.into_iter().map(|((kind, owner), sums)| sums.row(kind, &owner)).collect();
    rows.sort_by_key(|row| (row.kind, -row.peak_bytes.unwrap_or(0), -row.now_bytes.unwrap_or(0)));
    rows
}

impl Sums {
    fn add(&mut self, at: usize, stacks_of: usize, row: &SightRow, is_alone: bool) {
        self.bytes[at] += i128::from(if is_alone { row.bytes } else { row.shared_out_bytes });
        if let Some((stack, bytes)) = row.largest
            && self.stacks[at].is_none_or(|largest| bytes > largest.bytes)
        {
            self.stacks[at] = Some(OwnerStack { part: stacks_of, stack, bytes });
        }
        if let Some(mapped) = &row.mapped
            && self.mapped[at].as_ref().is_none_or(|most| mapped.bytes > most.bytes)
        {
            self.mapped[at] = Some(mapped.clone());
        }
        if let Some((name, bytes)) = &row.file
            && self.files[at].as_ref().is_none_or(|(_, most)| bytes > most)
        {
            self.files[at] = Some((name.clone(), *bytes));
        }
    }

    fn row(self, kind: RowKind, owner: &str) -> OwnerRow {
        let ([stack_now, stack_peak], [file_now, file_peak]) = (self.stacks, self.files);
        let [mapped_now, mapped_peak] = self.mapped;
        let (largest_file, largest_file_bytes) = file_peak.or(file_now).unzip();
        OwnerRow {
            owner: owner.to_owned(),
            kind,
            now_bytes: Some(self.bytes[0]),
            peak_bytes: Some(self.bytes[1]),
            largest: stack_peak.or(stack_now),
            largest_now: stack_now,
            mapped: mapped_peak.or_else(|| mapped_now.clone()),
            mapped_now,
            largest_file,
            largest_file_bytes,
        }
    }
}

fn figures(parts: &[OwnerPart<'_>], point: &[(usize, &Sight)]) -> HostFigures {
    let sum =
        |bytes: fn(&Sight) -> u64| point.iter().map(|(_, sight)| bytes(sight)).fold(0, u64::saturating_add);
    // The processes of one group report its figures at nearly the same time; the last ones count.
    let groups =
        point.iter().max_by_key(|(_, sight)| sight.time_us).and_then(|(_, sight)| sight.report.group);
    HostFigures {
        swapped_bytes: sum(|sight| sight.report.swapped_bytes),
        huge_bytes: sum(|sight| sight.huge_bytes),
        allocator: point.iter().find_map(|(_, sight)| sight.allocator),
        unused_page_bytes: sum(|sight| sight.unused_page_bytes),
        n_arenas: sum(|sight| of_threads(sight).count() as u64),
        arena_unused_bytes: sum(|sight| of_threads(sight).fold(0, u64::saturating_add)),
        one_arena_saves_bytes: sum(one_arena_saves_bytes),
        sample_bytes: parts.iter().map(|part| part.sample_bytes).max().unwrap_or(0),
        group: groups,
    }
}

/// Returns the unused bytes of each arena of threads, in addition to the main one.
fn of_threads(sight: &Sight) -> impl Iterator<Item = u64> {
    sight.unused_of_arenas.iter().filter(|(name, _)| *name != MAIN_ARENA).map(|(_, bytes)| *bytes)
}

/// Returns how much less would be unused if all threads had one arena: what one thread keeps, the others could use.
fn one_arena_saves_bytes(sight: &Sight) -> u64 {
    let all = sight.unused_of_arenas.values().copied();
    all.clone().fold(0, u64::saturating_add) - all.max().unwrap_or(0)
}
