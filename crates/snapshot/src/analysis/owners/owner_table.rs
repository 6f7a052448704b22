//! The table of a device's memory: what each owner holds, what else is known, and what is unexplained, which together are
//! what the device reports as used.
//!
//! A table can be of several snapshots, one for each process of a run. A process is there from the beginning of its recording
//! to its last event or report, and holds nothing afterwards.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    owner_part::{OwnerPart, parts_of, time_of},
    owner_row::{DeviceOwners, OwnerRow, OwnerStack, RowKind, TOGETHER_US},
    resident_table,
};
use crate::{
    analysis::{ALIAS, IMPORTED, MANAGED, frames::is_of_driver, state::Holding},
    history::Moment,
    model::{Snapshot, StackIndex, Text, TimedUsage},
    words::{DeviceId, SeededMap},
};

/// Returns a table for each device in the snapshots of one run, one for each process. A device is the same in several
/// of them if its UUID is; without UUIDs, if its number is.
///
/// ```
/// use memreel::{Address, StreamId, integrate::UsageReport, snapshot};
/// use memreel::{analysis::owners, recorder::{Recording, Recorder}};
///
/// let recorder = Recorder::new();
/// recorder.record_history(&Recording::all());
/// let ledger = recorder.ledger(0);
/// ledger.segment_alloc(Address(0x20_0000), 6 << 20, StreamId::DEFAULT)?;
/// recorder.report_usage(0, UsageReport { used_bytes: 9 << 20, ..UsageReport::default() });
/// let snapshot = snapshot::collect(&recorder, [&ledger], Default::default());
/// let tables = owners(&[&snapshot]);
/// let rows = tables[0].rows.iter().map(|row| (&*row.owner, row.now_bytes));
/// assert!(rows.clone().any(|row| row == ("program", Some(6 << 20))));
/// assert_eq!(rows.filter_map(|(_, bytes)| bytes).sum::<i128>(), 9 << 20);
/// # Ok::<(), memreel::Error>(())
/// ```
#[must_use]
pub fn owners(snapshots: &[&Snapshot]) -> Vec<DeviceOwners> {
    let mut devices = Devices::default();
    for (number, snapshot) in snapshots.iter().enumerate() {
        parts_of(number, snapshot).into_iter().for_each(|part| devices.add(part));
    }
    devices.tables()
}

/// The parts of each device: those with one UUID, or with one number if there is no UUID.
#[derive(Debug, Default)]
pub(super) struct Devices<'a> {
    /// Processes that the kernel was asked about have a table of their own.
    devices: BTreeMap<(DeviceId, String, bool), Vec<OwnerPart<'a>>>,
    known: BTreeMap<String, DeviceId>,
}

impl<'a> Devices<'a> {
    pub(super) fn add(&mut self, part: OwnerPart<'a>) {
        let uuid = part.uuid.clone();
        let is_named = !uuid.is_empty();
        let first =
            if is_named { *self.known.entry(uuid.clone()).or_insert(part.device) } else { part.device };
        let is_resident = !part.sights.is_empty();
        self.devices.entry((first, uuid, is_resident)).or_default().push(part);
    }

    pub(super) fn parts_mut(&mut self) -> impl Iterator<Item = &mut OwnerPart<'a>> {
        self.devices.values_mut().flatten()
    }

    pub(super) fn tables(&self) -> Vec<DeviceOwners> {
        self.devices.values().map(|parts| Table { parts }.table()).collect()
    }
}

/// Returns the moments of a part alone at which a table has it: now, and at the peak.
pub(super) fn points_of(part: &OwnerPart<'_>) -> [Option<Moment>; 2] {
    let table = Table { parts: std::slice::from_ref(part) };
    [table.now(), table.peak()].map(|point| point.moments[0])
}

/// Returns the most addresses that a report has as reserved.
fn most_addresses<'a>(reports: impl Iterator<Item = &'a TimedUsage>) -> u64 {
    reports.map(|timed| timed.report.reserved_address_bytes).max().unwrap_or(0)
}

fn is_outside(owner: &str) -> bool {
    [MANAGED, IMPORTED, ALIAS].contains(&owner)
}

/// A point of a run: the moment of each part, `None` for a process that no longer exists, and the report of the device.
struct Point {
    moments: Vec<Option<Moment>>,
    /// The part whose report it is, and the report.
    report: Option<(usize, TimedUsage)>,
    time_us: Option<i64>,
}

/// What one owner holds at the two points, and the stacks that requested it.
#[derive(Default)]
struct Owned {
    bytes: [i128; 2],
    /// By part, and by the place of the snapshot that has the stack.
    stacks: [SeededMap<(usize, usize, StackIndex), u64>; 2],
}

struct Table<'a> {
    parts: &'a [OwnerPart<'a>],
}

impl Table<'_> {
    fn table(&self) -> DeviceOwners {
        if let Some(table) = resident_table::table(self.parts) {
            return table;
        }
        let points = [self.now(), self.peak()];
        let mut owned: BTreeMap<Text, Owned> = BTreeMap::new();
        for (at, point) in points.iter().enumerate() {
            for (part, moment) in self.parts.iter().zip(&point.moments) {
                for ((owner, stack), sum) in moment.iter().flat_map(|moment| part.sums_at(*moment)) {
                    let of = owned.entry(part.owners[owner as usize].clone()).or_default();
                    of.bytes[at] += sum;
                    if let Some(stack) = stack {
                        let bytes = of.stacks[at].entry((part.number, part.stacks_of, stack)).or_default();
                        *bytes = bytes.saturating_add(u64::try_from(sum).unwrap_or(u64::MAX));
                    }
                }
            }
        }
        let mut rows: Vec<OwnerRow> = owned.into_iter().map(|(owner, owned)| row(&owner, &owned)).collect();
        rows.sort_by_key(|row| (row.kind, -row.peak_bytes.unwrap_or(0), -row.now_bytes.unwrap_or(0)));
        let (outside, mut rows): (Vec<OwnerRow>, Vec<OwnerRow>) =
            rows.into_iter().partition(|row| is_outside(&row.owner));
        rows.extend(self.other_rows(&points, &rows));
        let first = &self.parts[0];
        let used = points.each_ref().map(|point| point.report.map(|(_, timed)| timed.report.used_bytes));
        let time = |point: &Point| u64::try_from(point.time_us?).ok();
        let named = self.parts.iter().find(|part| !part.name.is_empty()).unwrap_or(first);
        DeviceOwners {
            device: first.device,
            name: named.name.clone(),
            uuid: first.uuid.clone(),
            parts: self.parts.iter().map(|part| part.number).collect::<BTreeSet<_>>().into_iter().collect(),
            total_bytes: points[0].report.map(|(_, timed)| timed.report.total_bytes),
            used_now_bytes: used[0],
            used_peak_bytes: used[1],
            now_us: time(&points[0]),
            peak_us: time(&points[1]),
            is_of_blocks: self.parts.iter().all(|part| part.is_of_blocks),
            n_rounded: self.parts.iter().map(|part| part.rounded.n_blocks).sum(),
            rounded_bytes: self.parts.iter().map(|part| part.rounded.bytes).fold(0, u64::saturating_add),
            reserved_address_bytes: most_addresses(self.parts.iter().filter_map(|part| part.reports.last())),
            reserved_address_peak_bytes: most_addresses(self.parts.iter().flat_map(|part| &part.reports)),
            rows,
            outside,
            host: None,
        }
    }

    /// Returns the last report, with the processes that exist then; without reports, the ends of all that end together.
    fn now(&self) -> Point {
        let latest = self.parts.iter().filter_map(|part| part.last_us).max().unwrap_or(i64::MAX);
        let is_late = |last_us: i64| last_us >= latest.saturating_sub(TOGETHER_US);
        let ends = self.parts.iter().filter_map(|part| part.last_us).filter(|last_us| is_late(*last_us));
        let common_end = ends.min().unwrap_or(i64::MAX);
        let last = |until: i64| {
            let reports = self.parts.iter().enumerate();
            let reports = reports.filter_map(|(at, part)| Some((at, *part.report_at(until)?)));
            reports.max_by_key(|(_, report)| report.time_us)
        };
        if let Some(report) = last(common_end).or_else(|| last(i64::MAX)) {
            return self.point(report);
        }
        let end = |part: &OwnerPart<'_>| part.last_us.is_none_or(is_late).then(|| part.end());
        Point { moments: self.parts.iter().map(end).collect(), report: None, time_us: None }
    }

    /// Returns the report with the most used bytes; without reports, the point with the most recorded bytes.
    fn peak(&self) -> Point {
        let all = self.parts.iter().enumerate();
        let all = all.flat_map(|(at, part)| part.reports.iter().map(move |report| (at, *report)));
        // The last of equal reports: what the driver took for itself is recorded as soon as it is seen, not earlier.
        let used = |(_, timed): &(usize, TimedUsage)| (timed.report.used_bytes, timed.time_us);
        match all.max_by_key(used) {
            Some(report) => self.point(report),
            None => self.most_recorded(),
        }
    }

    fn point(&self, report: (usize, TimedUsage)) -> Point {
        let time_us = time_of(&report.1);
        let moments = self.parts.iter().map(|part| part.moment_at(time_us)).collect();
        Point { moments, report: Some(report), time_us: Some(time_us) }
    }

    fn most_recorded(&self) -> Point {
        let mut changes: Vec<Change> = Vec::new();
        for (at, part) in self.parts.iter().enumerate() {
            let is_outside: Vec<bool> = part.owners.iter().map(|owner| is_outside(owner)).collect();
            let time = |moment: Moment| moment.entry().and_then(|entry| part.times.get(entry));
            let of_part = part.changes(|owner| !is_outside[owner as usize], std::iter::empty());
            changes.extend(of_part.into_iter().map(|(moment, bytes)| Change {
                time_us: time(moment),
                part: at,
                moment: Some(moment),
                bytes,
            }));
            let is_left = |(holding, owner): &&(Holding, u32)| {
                holding.until == Moment::NEVER && !is_outside[*owner as usize]
            };
            let left = part.holdings.iter().filter(is_left).map(|(holding, _)| i128::from(holding.bytes));
            let bytes = -left.sum::<i128>();
            if part.last_us.is_some() && bytes != 0 {
                changes.push(Change { time_us: part.last_us, part: at, moment: None, bytes });
            }
        }
        // At the same time, processes end last.
        changes.sort_by_key(|change| (change.time_us, change.moment.is_none(), change.part, change.moment));
        let is_same = |one: &Change, next: &Change| (one.part, one.moment) == (next.part, next.moment);
        let (mut level, mut most, mut best) = (0, 0, 0);
        for (number, group) in changes.chunk_by(is_same).enumerate() {
            level += group.iter().map(|change| change.bytes).sum::<i128>();
            if level > most {
                (most, best) = (level, number + 1);
            }
        }
        let mut moments = vec![Some(Moment::START); self.parts.len()];
        let mut time_us = None;
        for group in changes.chunk_by(is_same).take(best) {
            moments[group[0].part] = group[0].moment;
            time_us = group[0].time_us.filter(|time_us| *time_us != 0);
        }
        Point { moments, report: None, time_us }
    }

    /// Returns the rows outside segments. Those from reports exist if the device has a report.
    fn other_rows(&self, points: &[Point; 2], rows: &[OwnerRow]) -> Vec<OwnerRow> {
        if points.iter().any(|point| point.report.is_none()) {
            return Vec::new();
        }
        let of_owners = [
            rows.iter().filter_map(|row| row.now_bytes).sum(),
            rows.iter().filter_map(|row| row.peak_bytes).sum(),
        ];
        let others: [Others; 2] = std::array::from_fn(|at| self.others(&points[at], of_owners[at]));
        let row = |owner: &str, kind, bytes: fn(&Others) -> Option<i128>| OwnerRow {
            owner: owner.into(),
            kind,
            now_bytes: bytes(&others[0]),
            peak_bytes: bytes(&others[1]),
            largest: None,
            largest_now: None,
            mapped: None,
            mapped_now: None,
            largest_file: None,
            largest_file_bytes: None,
        };
        let mut rows = vec![
            row("pool slack", RowKind::PoolSlack, |others| Some(others.slack)),
            row("page rounding", RowKind::PageRounding, |others| Some(others.rounding)),
            row("other processes", RowKind::OtherProcesses, |others| others.other_processes),
        ];
        if others.iter().any(|others| others.no_process > 0) {
            rows.push(row("no process", RowKind::NoProcess, |others| Some(others.no_process)));
        }
        rows.push(row("unexplained", RowKind::Unexplained, |others| Some(others.unexplained)));
        rows
    }

    fn others(&self, point: &Point, of_owners: i128) -> Others {
        let mut others = Others::default();
        let Some((reporter, timed)) = point.report else { return others };
        let mut of_recorded = 0;
        for (at, (part, moment)) in self.parts.iter().zip(&point.moments).enumerate() {
            let Some(moment) = moment else { continue };
            let report = part.report_at(time_of(&timed)).map(|timed| timed.report).unwrap_or_default();
            let [slack, rounding] = [report.pool_slack_bytes, report.page_rounding_bytes].map(i128::from);
            others.slack += slack;
            others.rounding += rounding;
            if at != reporter {
                let held =
                    part.held_at(*moment).filter(|(_, owner)| !is_outside(&part.owners[*owner as usize]));
                of_recorded +=
                    held.map(|(holding, _)| i128::from(holding.bytes)).sum::<i128>() + slack + rounding;
            }
        }
        // To the reporting process, the other recorded processes are others.
        let seen = timed.report.other_processes_bytes;
        others.other_processes = seen.map(|bytes| (i128::from(bytes) - of_recorded).max(0));
        others.no_process = timed.report.no_process_bytes.into();
        let of_processes = others.other_processes.unwrap_or(0) + others.no_process;
        let known = of_owners + others.slack + others.rounding + of_processes;
        others.unexplained = i128::from(timed.report.used_bytes) - known;
        others
    }
}

/// The bytes of the rows that are not of segments.
#[derive(Default)]
struct Others {
    slack: i128,
    rounding: i128,
    other_processes: Option<i128>,
    no_process: i128,
    unexplained: i128,
}

/// What a holding adds to or removes from the recorded bytes.
struct Change {
    time_us: Option<i64>,
    part: usize,
    /// `None` where the process ends.
    moment: Option<Moment>,
    bytes: i128,
}

fn row(owner: &str, owned: &Owned) -> OwnerRow {
    let largest = |stacks: &SeededMap<(usize, usize, StackIndex), u64>| {
        let largest = stacks.iter().max_by_key(|(place, bytes)| (**bytes, std::cmp::Reverse(**place)));
        largest.map(|((_, part, stack), bytes)| OwnerStack { part: *part, stack: *stack, bytes: *bytes })
    };
    let [now, peak] = &owned.stacks;
    OwnerRow {
        kind: if is_of_driver(owner) { RowKind::Driver } else { RowKind::Owner },
        owner: owner.to_string(),
        now_bytes: Some(owned.bytes[0]),
        peak_bytes: Some(owned.bytes[1]),
        largest: largest(peak).or_else(|| largest(now)),
        largest_now: largest(now),
        mapped: None,
        mapped_now: None,
        largest_file: None,
        largest_file_bytes: None,
    }
}
