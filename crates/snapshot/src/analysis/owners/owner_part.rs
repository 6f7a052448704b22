//! One device of one snapshot, as a part of the table of owners: what each owner held, and what the device reported.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    earlier_peak::OfOwner,
    mapped::MappedMemory,
    resident::{Sight, sights},
    rounded::RoundedBlocks,
};
use crate::{
    analysis::{
        EarlierPeak, Owners,
        state::{Holding, Lives, has_requests, holdings, of_blocks},
    },
    history::{Life, Moment, Times},
    model::{DeviceUsage, RecordedDevices, ResidentReport, Segment, Snapshot, StackIndex, Text, TimedUsage},
    words::{DeviceId, SeededMap, usage::PINNED},
};

/// Returns the parts of a snapshot, one for each device. `number` is its place in the list that was asked about.
pub(super) fn parts_of(number: usize, snapshot: &Snapshot) -> Vec<OwnerPart<'_>> {
    let (mut judge, usage, resident) = (Owners::new(snapshot), snapshot.usage(), snapshot.resident());
    let part = |device| {
        let of_device = usage.iter().find(|usage| usage.device == device);
        let resident: Vec<ResidentReport> =
            resident.iter().filter(|report| report.device == device).cloned().collect();
        OwnerPart::new(number, snapshot, device, (of_device, &resident), &mut judge)
    };
    devices_of(snapshot, &usage).into_iter().map(part).collect()
}

/// Returns every device with memory, events or reports; [`DeviceId::HOST`] is pinned memory.
fn devices_of(snapshot: &Snapshot, usage: &[DeviceUsage]) -> BTreeSet<DeviceId> {
    let of_traces = snapshot.device_traces.iter().enumerate().filter(|(_, trace)| !trace.is_empty());
    let of_usage = usage.iter().filter(|usage| !usage.reports.is_empty()).map(|usage| usage.device);
    let mut found: BTreeSet<DeviceId> = snapshot
        .segments
        .iter()
        .map(|segment| segment.device)
        .chain(of_traces.map(|(device, _)| DeviceId::from(device)))
        .chain(snapshot.has_host().then_some(DeviceId::HOST))
        .chain(of_usage)
        .collect();
    if found.is_empty() {
        found.insert(DeviceId(0));
    }
    found
}

/// The memory of one device in one snapshot.
#[derive(Debug)]
pub(super) struct OwnerPart<'a> {
    pub(super) number: usize,
    /// The place of the snapshot that has the stacks of the holdings.
    pub(super) stacks_of: usize,
    pub(super) device: DeviceId,
    pub(super) name: String,
    pub(super) uuid: String,
    pub(super) reports: Vec<TimedUsage>,
    /// Each with the place of its owner in `owners`.
    pub(super) holdings: Vec<(Holding, u32)>,
    /// Each once.
    pub(super) owners: Vec<Text>,
    /// The readings of the process's memory, if it is its heap, oldest first.
    pub(super) sights: Vec<Sight>,
    pub(super) is_of_blocks: bool,
    /// The most bytes of its blocks, if it is of blocks.
    pub(super) peak_bytes: u64,
    /// The mean interval of a heap's samples; 0 if every block was recorded.
    pub(super) sample_bytes: u64,
    pub(super) rounded: RoundedBlocks,
    pub(super) times: Times<'a>,
    pub(super) n_entries: usize,
    /// The time of its last event or report; `None` if nothing has a time.
    pub(super) last_us: Option<i64>,
}

impl<'a> OwnerPart<'a> {
    fn new(
        number: usize,
        snapshot: &'a Snapshot,
        device: DeviceId,
        (usage, resident): (Option<&DeviceUsage>, &[ResidentReport]),
        judge: &mut Owners<'_>,
    ) -> OwnerPart<'a> {
        let entries = snapshot.trace(device);
        let host = snapshot.host_segments.iter().filter(|_| device == DeviceId::HOST);
        let segments: Vec<&Segment> = snapshot.segments_of(Some(device)).chain(host).collect();
        let is_of_blocks = !has_requests(snapshot, device, &segments, entries);
        let times = Times::new(entries).rising();
        let recorded = RecordedDevices::new(snapshot).of(device);
        let lives = is_of_blocks.then(|| Lives::new(entries, &segments, recorded));
        let holdings =
            lives.as_ref().map_or_else(|| holdings(&segments, entries), |lives| of_blocks(&lives.all));
        let moment_at = |time_us| times.n_until(time_us).checked_sub(1).map_or(Moment::START, Moment::after);
        let earlier = lives.as_ref().and_then(|lives| {
            EarlierPeak::of(snapshot, device, recorded, || most_active(lives, entries.len()))
        });
        let peak_bytes = match &earlier {
            Some(earlier) => earlier.bytes,
            None => lives.as_ref().map_or(0, |lives| most_active(lives, entries.len())),
        };
        let owners = earlier.as_ref().map(EarlierPeak::owners);
        let of_lives = |lives: &Lives| {
            let earlier = owners.as_ref().zip(times.get(0));
            sights(resident, lives, moment_at, judge, &MappedMemory::of(snapshot, device), earlier)
        };
        let sights = lives.as_ref().map(of_lives).unwrap_or_default();
        let mut names = OwnerNames::default();
        let owned = |holding: Holding| (holding, names.of_stack(holding.stack, judge));
        let reports = usage.map(|usage| usage.reports.clone()).unwrap_or_default();
        let last_entry =
            entries.len().checked_sub(1).and_then(|last| times.get(last)).filter(|time_us| *time_us != 0);
        let last_look = sights.last().map(|sight| sight.time_us);
        let last_us = reports.last().map(time_of).into_iter().chain(last_entry).chain(last_look).max();
        let named =
            |text: fn(&DeviceUsage) -> &String| usage.map_or_else(String::new, |usage| text(usage).clone());
        let (name, holdings): (_, Vec<_>) =
            (named(|usage| &usage.name), holdings.into_iter().map(owned).collect());
        let rounded = if device == DeviceId::HOST {
            // PyTorch keeps a pinned block after its free, as a separate segment.
            RoundedBlocks::of(&of_allocated(&Lives::new(entries, &segments, recorded).all))
        } else if name == PINNED {
            let is_torch = |(_, owner): &&(Holding, u32)| &*names.all[*owner as usize] == "pytorch";
            RoundedBlocks::of(&holdings.iter().filter(is_torch).map(|(held, _)| *held).collect::<Vec<_>>())
        } else {
            RoundedBlocks::default()
        };
        let part = OwnerPart {
            number,
            stacks_of: number,
            device,
            rounded,
            name,
            uuid: named(|usage| &usage.uuid),
            reports,
            holdings,
            owners: Vec::new(),
            sights,
            is_of_blocks,
            peak_bytes,
            sample_bytes: recorded.weight_bytes,
            times,
            n_entries: entries.len(),
            last_us,
        };
        let part = match earlier.zip(owners) {
            Some((peak, owners)) => part.behind(&peak, &owners, &mut names),
            None => part,
        };
        OwnerPart { owners: names.all, ..part }
    }

    /// Puts a peak before the history, which begins two entries later: at the first its blocks are there, at the second they are
    /// gone. Of their stacks the table has the owners.
    fn behind(
        mut self,
        peak: &EarlierPeak,
        owners: &BTreeMap<Text, OfOwner>,
        names: &mut OwnerNames,
    ) -> OwnerPart<'a> {
        const N: u32 = 2;
        let later = |moment: &mut Moment| {
            if *moment != Moment::NEVER {
                moment.0 = moment.0.saturating_add(N);
            }
        };
        for (holding, _) in &mut self.holdings {
            later(&mut holding.from);
            later(&mut holding.until);
        }
        let (from, until) = (Moment::after(0), Moment::after(1));
        let held = |of: &OfOwner| Holding { bytes: of.bytes, stack: None, from, until };
        self.holdings.extend(owners.iter().map(|(owner, of)| (held(of), names.number(owner.clone()))));
        let first_us = self.times.get(0).unwrap_or(0);
        let peak_us = i64::try_from(peak.time_us).unwrap_or(i64::MAX).min(first_us);
        let times = (0..self.n_entries).filter_map(|entry| self.times.get(entry));
        self.times = Times::of([peak_us, first_us].into_iter().chain(times).collect());
        self.n_entries += N as usize;
        self
    }

    pub(super) fn end(&self) -> Moment {
        self.n_entries.checked_sub(1).map_or(Moment::START, Moment::after)
    }

    /// Returns the moment of a time; `None` if the process no longer existed.
    pub(super) fn moment_at(&self, time_us: i64) -> Option<Moment> {
        let is_there = self.last_us.is_none_or(|last_us| time_us <= last_us);
        let n = self.times.n_until(time_us);
        is_there.then(|| n.checked_sub(1).map_or(Moment::START, Moment::after))
    }

    /// Returns the last report up to a time.
    pub(super) fn report_at(&self, time_us: i64) -> Option<&TimedUsage> {
        let n = self.reports.partition_point(|report| time_of(report) <= time_us);
        n.checked_sub(1).map(|last| &self.reports[last])
    }

    pub(super) fn held_at(&self, moment: Moment) -> impl Iterator<Item = &(Holding, u32)> {
        self.holdings.iter().filter(move |(holding, _)| holding.is_held_at(moment))
    }

    /// Returns the bytes that each owner holds at a moment, by the stack that requested them.
    pub(super) fn sums_at(&self, moment: Moment) -> SeededMap<(u32, Option<StackIndex>), i128> {
        let mut sums = SeededMap::default();
        for (holding, owner) in self.held_at(moment) {
            *sums.entry((*owner, holding.stack)).or_default() += i128::from(holding.bytes);
        }
        sums
    }

    /// Returns the moments at which holdings of some owners begin or end, rising, with what they add and remove then.
    pub(super) fn changes(
        &self,
        is_counted: impl Fn(u32) -> bool,
        also: impl Iterator<Item = Moment>,
    ) -> Vec<(Moment, i128)> {
        let (mut sums, mut is_change) = (vec![0_i128; self.n_entries + 1], vec![false; self.n_entries + 1]);
        let mut add = |moment: Moment, bytes: i128| {
            if let Some(sum) = sums.get_mut(moment.n_entries()) {
                *sum += bytes;
                is_change[moment.n_entries()] = true;
            }
        };
        for (Holding { bytes, from, until, .. }, _) in
            self.holdings.iter().filter(|(_, owner)| is_counted(*owner))
        {
            add(*from, i128::from(*bytes));
            add(*until, -i128::from(*bytes));
        }
        also.for_each(|moment| add(moment, 0));
        let all = (0..).map(Moment).zip(sums).zip(is_change);
        all.filter(|(_, is_change)| *is_change).map(|(change, _)| change).collect()
    }
}

/// The owners of holdings, each once.
#[derive(Default)]
struct OwnerNames {
    all: Vec<Text>,
    numbers: SeededMap<Text, u32>,
    of_stacks: SeededMap<Option<StackIndex>, u32>,
}

impl OwnerNames {
    fn of_stack(&mut self, stack: Option<StackIndex>, judge: &mut Owners<'_>) -> u32 {
        if let Some(number) = self.of_stacks.get(&stack) {
            return *number;
        }
        let number = self.number(judge.of(stack));
        self.of_stacks.insert(stack, number);
        number
    }

    fn number(&mut self, name: Text) -> u32 {
        let next = u32::try_from(self.all.len()).unwrap_or(u32::MAX);
        *self.numbers.entry(name).or_insert_with_key(|name| {
            self.all.push(name.clone());
            next
        })
    }
}

/// Returns a program's pinned memory, without what it freed.
fn of_allocated(lives: &[Life]) -> Vec<Holding> {
    let held = |life: &Life| Life { until: life.until.min(life.requested), ..*life };
    of_blocks(&lives.iter().map(held).collect::<Vec<Life>>())
}

/// Returns the most bytes of the blocks that are in use at any moment.
fn most_active(lives: &Lives, n_entries: usize) -> u64 {
    let mut changes = vec![0_i128; n_entries + 1];
    for life in &lives.all {
        let bytes = i128::from(life.represented_bytes);
        for (moment, change) in [(life.from, bytes), (life.until, -bytes)] {
            changes.get_mut(moment.n_entries()).into_iter().for_each(|sum| *sum += change);
        }
    }
    let mut level = 0;
    let levels = changes.into_iter().map(|change| {
        level += change;
        level
    });
    u64::try_from(levels.max().unwrap_or(0)).unwrap_or(u64::MAX)
}

/// Returns the time of a report, in microseconds since the Unix epoch.
pub(crate) fn time_of(report: &TimedUsage) -> i64 {
    i64::try_from(report.time_us).unwrap_or(i64::MAX)
}
