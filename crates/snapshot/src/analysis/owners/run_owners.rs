//! The table of a run of many processes, whose snapshots are added one by one and need not be kept.
//!
//! For each process the table keeps what its owners held at some moments. These are all moments at which something
//! changed or, if there are too many, the maximum of each of equal spans of time, and always those that a table of only
//! this process shows. So a table of one process equals that of [`owners`](super::owners), and memory is bounded.

use std::{cmp::Reverse, collections::BTreeMap};

use super::{
    owner_part::{OwnerPart, parts_of, time_of},
    owner_row::DeviceOwners,
    owner_table::{Devices, points_of},
    resident::Sight,
};
use crate::{
    analysis::state::Holding,
    history::{Moment, Times},
    model::{Frame, Snapshot, StackIndex, Text},
    words::SeededMap,
};

/// How many moments of a process are kept at first, and at the minimum.
const MOST_MOMENTS: usize = 256;
const LEAST_MOMENTS: usize = 4;

/// How many holdings all processes have together, 48 bytes each; beyond that, fewer moments are kept.
const MOST_HOLDINGS: usize = 1 << 17;

/// The owners of the memory of a run, of any number of processes in bounded memory.
///
/// ```
/// use memreel_snapshot::{Snapshot, analysis::RunOwners};
///
/// let mut run = RunOwners::default();
/// run.add(&Snapshot::default());
/// run.add(&Snapshot::default());
/// assert_eq!(run.tables()[0].parts, [0, 1]);
/// ```
#[derive(Debug)]
pub struct RunOwners {
    devices: Devices<'static>,
    /// A snapshot with only the stacks.
    stacks: Snapshot,
    n_added: usize,
    most_moments: usize,
    most_holdings: usize,
}

impl Default for RunOwners {
    fn default() -> RunOwners {
        RunOwners {
            devices: Devices::default(),
            stacks: Snapshot::default(),
            n_added: 0,
            most_moments: MOST_MOMENTS,
            most_holdings: MOST_HOLDINGS,
        }
    }
}

impl RunOwners {
    /// Adds the snapshot of a process.
    pub fn add(&mut self, snapshot: &Snapshot) {
        self.add_heap(snapshot);
    }

    /// Adds the snapshot of a process of which only the heap was recorded. Returns the most bytes of its blocks, as
    /// [`DeviceHistory::figures`](crate::analysis::DeviceHistory::figures) does.
    #[doc(hidden)]
    pub fn add_heap(&mut self, snapshot: &Snapshot) -> u64 {
        let mut peak_bytes = 0;
        for part in parts_of(self.n_added, snapshot) {
            peak_bytes = part.peak_bytes.max(peak_bytes);
            let part = self.with_own_stacks(part, snapshot);
            self.devices.add(coarse(&part, self.most_moments));
        }
        self.n_added += 1;
        while self.n_holdings() > self.most_holdings && self.most_moments > LEAST_MOMENTS {
            self.most_moments /= 2;
            let most = self.most_moments;
            self.devices.parts_mut().for_each(|part| *part = coarse(part, most));
        }
        peak_bytes
    }

    /// Returns a table for each device, as [`owners`](super::owners) does. The parts are in the order in which they
    /// were added; their stacks are in [`RunOwners::stacks`], whose place is 0.
    #[must_use]
    pub fn tables(&self) -> Vec<DeviceOwners> {
        self.devices.tables()
    }

    /// Returns a snapshot with only the stacks of the tables.
    #[must_use]
    pub fn stacks(&self) -> &Snapshot {
        &self.stacks
    }

    /// Returns which moments of a heap's process would be kept beside those that a table of this process alone is about, by what
    /// was added and removed at each moment at which blocks came or went. The first and the last time are those of its events.
    #[doc(hidden)]
    pub fn highest(
        &self,
        changes: &[(u32, i128)],
        ends_us: [i64; 2],
        time_us: impl Fn(u32) -> i64,
    ) -> Vec<u32> {
        /// The start, the end, and those of a table of the process alone.
        const N_OTHERS: usize = 4;
        let n_spans = self.most_moments.saturating_sub(N_OTHERS).max(1);
        let changes: Vec<_> = changes.iter().map(|(moment, change)| (Moment(*moment), *change)).collect();
        highest(&changes, n_spans, ends_us, |moment| time_us(moment.0)).map(|moment| moment.0).collect()
    }

    fn n_holdings(&mut self) -> usize {
        self.devices.parts_mut().map(|part| part.holdings.len()).sum()
    }

    /// Keeps of the stacks of each owner the largest at the moments that a table of this part alone is about; of an owner that
    /// held nothing then, the one that asked for the most.
    fn with_own_stacks<'a>(&mut self, mut part: OwnerPart<'a>, snapshot: &Snapshot) -> OwnerPart<'a> {
        let mut all = largest(&part, part.holdings.iter());
        let mut found: Vec<StackIndex> = Vec::new();
        for moment in points_of(&part).into_iter().flatten() {
            for (owner, stack) in largest(&part, part.held_at(moment)) {
                all.remove(&owner);
                found.push(stack);
            }
        }
        found.extend(all.into_values());
        found.extend(stacks_of(&mut part.sights).map(|(stack, _)| *stack));
        let mut kept: SeededMap<StackIndex, StackIndex> = SeededMap::default();
        for stack in found {
            kept.entry(stack).or_insert_with(|| self.own_stack(snapshot, stack));
        }
        for (holding, _) in &mut part.holdings {
            holding.stack = holding.stack.and_then(|stack| kept.get(&stack).copied());
        }
        for (stack, _) in stacks_of(&mut part.sights) {
            *stack = kept.get(stack).copied().unwrap_or(*stack);
        }
        part.stacks_of = 0;
        part
    }

    fn own_stack(&mut self, snapshot: &Snapshot, stack: StackIndex) -> StackIndex {
        let Snapshot { stacks, shapes, .. } = &mut self.stacks;
        let frames: Vec<_> = snapshot
            .stacks
            .frames(stack)
            .map(|frame| {
                let shape = shapes.intern_shared(&snapshot.shapes, frame.shape);
                stacks.intern_frame(Frame { shape, ..frame.clone() })
            })
            .collect();
        stacks.intern_stack(&frames)
    }
}

fn stacks_of(sights: &mut [Sight]) -> impl Iterator<Item = &mut (StackIndex, u64)> {
    sights.iter_mut().flat_map(|sight| &mut sight.rows).filter_map(|row| row.largest.as_mut())
}

/// Returns the stack of each owner that requested the most.
fn largest<'h>(
    part: &OwnerPart<'_>,
    holdings: impl Iterator<Item = &'h (Holding, u32)>,
) -> BTreeMap<Text, StackIndex> {
    let mut sums: SeededMap<(u32, StackIndex), u64> = SeededMap::default();
    for (holding, owner) in holdings {
        if let Some(stack) = holding.stack {
            let sum = sums.entry((*owner, stack)).or_default();
            *sum = sum.saturating_add(holding.bytes);
        }
    }
    let mut largest: SeededMap<u32, (u64, Reverse<StackIndex>)> = SeededMap::default();
    for ((owner, stack), bytes) in sums {
        let most = largest.entry(owner).or_insert((bytes, Reverse(stack)));
        *most = (*most).max((bytes, Reverse(stack)));
    }
    largest.into_iter().map(|(owner, (_, stack))| (part.owners[owner as usize].clone(), stack.0)).collect()
}

/// Returns a part with at most about this number of moments: what each owner held at each of them.
fn coarse(part: &OwnerPart<'_>, most: usize) -> OwnerPart<'static> {
    let kept = moments(part, most);
    let place = |moment: Moment| kept.partition_point(|kept| *kept < moment);
    let mut changes: SeededMap<(u32, Option<StackIndex>), Vec<i128>> = SeededMap::default();
    for (holding, owner) in &part.holdings {
        let (from, until) = (place(holding.from), place(holding.until));
        // Between two moments that are kept it came and went.
        if from != until {
            let of = changes.entry((*owner, holding.stack)).or_insert_with(|| vec![0; kept.len() + 1]);
            of[from] += i128::from(holding.bytes);
            of[until] -= i128::from(holding.bytes);
        }
    }
    let mut holdings = Vec::new();
    for ((owner, stack), changes) in changes {
        holdings.extend(levels(&changes[..kept.len()], stack).map(|holding| (holding, owner)));
    }
    holdings.sort_by_key(|(holding, owner)| (*owner, holding.stack, holding.from));
    holdings.shrink_to_fit();
    let times = kept.iter().filter_map(|moment| part.times.get(moment.entry()?)).collect();
    OwnerPart {
        number: part.number,
        stacks_of: part.stacks_of,
        device: part.device,
        name: part.name.clone(),
        uuid: part.uuid.clone(),
        reports: part.reports.clone(),
        holdings,
        owners: part.owners.clone(),
        sights: part.sights.clone(),
        is_of_blocks: part.is_of_blocks,
        peak_bytes: part.peak_bytes,
        sample_bytes: part.sample_bytes,
        rounded: part.rounded,
        times: Times::of(times),
        n_entries: kept.len() - 1,
        last_us: part.last_us,
    }
}

/// Returns a holding for each run of moments with the same bytes.
fn levels(changes: &[i128], stack: Option<StackIndex>) -> impl Iterator<Item = Holding> {
    let moment = |place: usize| place.checked_sub(1).map_or(Moment::START, Moment::after);
    let (mut level, mut begun, mut found) = (0_i128, 0, Vec::new());
    let mut end = |level: i128, begun: usize, until| {
        if let Some(bytes) = u64::try_from(level).ok().filter(|bytes| *bytes > 0) {
            found.push(Holding { bytes, stack, from: moment(begun), until });
        }
    };
    for (at, change) in changes.iter().enumerate().filter(|(_, change)| **change != 0) {
        end(level, begun, moment(at));
        (level, begun) = (level + change, at);
    }
    end(level, begun, Moment::NEVER);
    found.into_iter()
}

/// Returns the moments to keep, rising: the start, the end, those of a table of this part alone, and of each span of time
/// that with the most bytes.
fn moments(part: &OwnerPart<'_>, most: usize) -> Vec<Moment> {
    let mut kept = vec![Moment::START, part.end()];
    kept.extend(points_of(part).into_iter().flatten());
    let of_reports = part.reports.iter().filter_map(|report| part.moment_at(time_of(report)));
    let changes = part.changes(|_| true, of_reports);
    let n_spans = most.saturating_sub(kept.len()).max(1);
    let time = |moment: Moment| moment.entry().and_then(|entry| part.times.get(entry));
    let first_us = part.times.get(0).unwrap_or(0);
    let ends_us = [first_us, time(part.end()).unwrap_or(first_us)];
    kept.extend(highest(&changes, n_spans, ends_us, |moment| time(moment).unwrap_or(first_us)));
    kept.sort_unstable();
    kept.dedup();
    kept
}

/// Returns of each span of time the moment with the most bytes, of the moments of changes. The first and the last time are those
/// of the process.
fn highest(
    changes: &[(Moment, i128)],
    n_spans: usize,
    ends_us: [i64; 2],
    time_us: impl Fn(Moment) -> i64,
) -> impl Iterator<Item = Moment> {
    let span = spans(changes.len(), n_spans, ends_us, time_us);
    let mut best: Vec<(usize, i128, Moment)> = Vec::new();
    let mut level = 0;
    for (nth, (moment, change)) in changes.iter().enumerate() {
        level += change;
        let span = span(nth, *moment);
        match best.last_mut() {
            Some(best) if best.0 == span => {
                if level > best.1 {
                    (best.1, best.2) = (level, *moment);
                }
            }
            _ => best.push((span, level, *moment)),
        }
    }
    best.into_iter().map(|(_, _, moment)| moment)
}

/// Returns the span of a change by its number and its moment: one for each, or spans of equal time; of changes at one time,
/// spans of equal number.
fn spans(
    n_changes: usize,
    n_spans: usize,
    [first_us, last_us]: [i64; 2],
    time_us: impl Fn(Moment) -> i64,
) -> impl Fn(usize, Moment) -> usize {
    let length_us = last_us.saturating_sub(first_us);
    move |nth, moment| {
        if n_changes <= n_spans {
            return nth;
        }
        if length_us <= 0 {
            return nth * n_spans / n_changes;
        }
        let since_us = time_us(moment).saturating_sub(first_us).max(0);
        usize::try_from(i128::from(since_us) * n_spans as i128 / (i128::from(length_us) + 1)).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        model::{Segment, TraceEntry},
        words::{Action, Address},
    };

    /// A process that takes `n` segments of a byte each, one every microsecond, and gives all but the first back.
    fn process(start_us: i64, n: u64) -> Snapshot {
        let entry = |action, number: u64, time_us| TraceEntry {
            action: Some(action),
            address: Address(number << 12),
            size: 1,
            time_us,
            ..TraceEntry::default()
        };
        let time = |number: u64| start_us + i64::try_from(number).unwrap();
        let taken = (0..n).map(|number| entry(Action::SegmentAlloc, number, time(number)));
        let given = (1..n).map(|number| entry(Action::SegmentFree, number, time(n + number)));
        let segments = vec![Segment { total_size: 1, ..Segment::default() }];
        let device_traces = vec![taken.chain(given).collect()];
        Snapshot { segments, device_traces, ..Snapshot::default() }
    }

    fn bytes(run: &RunOwners) -> [i128; 2] {
        let tables = run.tables();
        let sum = |bytes: fn(&crate::analysis::OwnerRow) -> Option<i128>| {
            tables[0].rows.iter().filter_map(bytes).sum::<i128>()
        };
        [sum(|row| row.now_bytes), sum(|row| row.peak_bytes)]
    }

    #[test]
    fn memory_has_a_limit() {
        let mut run = RunOwners { most_holdings: 500, ..RunOwners::default() };
        // One process after another; the tenth has the most.
        for nth in 0..100 {
            run.add(&process(10_000_000 * (nth + 1), if nth == 9 { 2000 } else { 1000 }));
            assert!(run.n_holdings() <= 500 || run.most_moments == LEAST_MOMENTS, "{}", run.n_holdings());
        }
        assert!(run.n_holdings() < 1000, "{}", run.n_holdings());
        assert_eq!(bytes(&run), [1, 2000], "the last process is there now");
        assert_eq!(run.tables()[0].parts.len(), 100);
    }

    #[test]
    fn few_moments_have_the_most_of_their_spans() {
        let snapshot = process(1, 1000);
        let part = &parts_of(0, &snapshot)[0];
        for most in [4, 7, 64, 256] {
            let coarse = coarse(part, most);
            assert!(coarse.n_entries <= most, "{most}: {}", coarse.n_entries);
            let level = |part: &OwnerPart<'_>, time_us| -> u64 {
                let moment = part.moment_at(time_us).unwrap();
                part.held_at(moment).map(|(holding, _)| holding.bytes).sum()
            };
            assert_eq!((level(&coarse, 1000), level(&coarse, 2000)), (1000, 1), "{most}");
            let most_wrong = (1..2000).map(|at| level(part, at).abs_diff(level(&coarse, at))).max().unwrap();
            assert!(most_wrong <= 2 * 2000 / (most as u64 - 4).max(1) + 1, "{most}: {most_wrong}");
        }
        let whole = coarse(part, 5000);
        assert!((1..2000).all(|at| part.moment_at(at).map(|moment| moment.n_entries()).is_some_and(|n| {
            let level: u64 = whole.held_at(whole.moment_at(at).unwrap()).map(|(held, _)| held.bytes).sum();
            level == part.held_at(Moment(u32::try_from(n).unwrap())).map(|(held, _)| held.bytes).sum::<u64>()
        })));
    }
}
