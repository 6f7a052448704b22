//! One device of one snapshot, as the table of owners adds it up: what each owner held, and what the device reported.

use std::collections::BTreeSet;

use super::{
    holdings::{Holding, has_requests, holdings, of_blocks},
    lives::Lives,
    mapped::Mapped,
    owner::Owners,
    resident::{Sight, sights},
    rounded::Rounded,
};
use crate::{
    history::{ByDevice, Moment, Times},
    model::{DeviceUsage, ResidentReport, Segment, Snapshot, Text, TimedUsage, TraceEntry},
    words::DeviceId,
};

/// Returns the parts of a snapshot, one for each device. `number` is its place in the list that was asked about.
pub(super) fn parts_of(number: usize, snapshot: &Snapshot) -> Vec<Part<'_>> {
    let (mut judge, usage, resident) = (Owners::new(snapshot), snapshot.usage(), snapshot.resident());
    let part = |device| {
        let of_device = usage.iter().find(|usage| usage.device == device);
        let resident: Vec<ResidentReport> =
            resident.iter().filter(|report| report.device == device).cloned().collect();
        Part::new(number, snapshot, device, (of_device, &resident), &mut judge)
    };
    devices_of(snapshot, &usage).into_iter().map(part).collect()
}

/// Returns every device with memory, events or reports; [`DeviceId::HOST`] is pinned memory.
fn devices_of(snapshot: &Snapshot, usage: &[DeviceUsage]) -> BTreeSet<DeviceId> {
    let of_traces = snapshot.device_traces.iter().enumerate().filter(|(_, trace)| !trace.is_empty());
    let has_host = !snapshot.host_segments.is_empty() || !snapshot.host_traces.is_empty();
    let of_usage = usage.iter().filter(|usage| !usage.reports.is_empty()).map(|usage| usage.device);
    let mut found: BTreeSet<DeviceId> = snapshot
        .segments
        .iter()
        .map(|segment| segment.device)
        .chain(of_traces.map(|(device, _)| DeviceId::from(device)))
        .chain(has_host.then_some(DeviceId::HOST))
        .chain(of_usage)
        .collect();
    if found.is_empty() {
        found.insert(DeviceId(0));
    }
    found
}

/// The memory of one device in one snapshot.
#[derive(Debug)]
pub(super) struct Part<'a> {
    pub(super) number: usize,
    /// The place of the snapshot that has the stacks of the holdings.
    pub(super) stacks_of: usize,
    pub(super) device: DeviceId,
    pub(super) name: String,
    pub(super) uuid: String,
    pub(super) reports: Vec<TimedUsage>,
    pub(super) holdings: Vec<(Holding, Text)>,
    /// The looks at the process whose heap it is, oldest first.
    pub(super) sights: Vec<Sight>,
    pub(super) is_of_blocks: bool,
    /// The mean interval of a heap's samples; 0 if every block was recorded.
    pub(super) sample_bytes: u64,
    pub(super) rounded: Rounded,
    pub(super) times: Times<'a>,
    pub(super) n_entries: usize,
    /// The time of its last event or report; `None` if nothing is dated.
    pub(super) last_us: Option<i64>,
}

impl<'a> Part<'a> {
    fn new(
        number: usize,
        snapshot: &'a Snapshot,
        device: DeviceId,
        (usage, resident): (Option<&DeviceUsage>, &[ResidentReport]),
        judge: &mut Owners<'_>,
    ) -> Part<'a> {
        let entries = snapshot.trace(device);
        let host = snapshot.host_segments.iter().filter(|_| device == DeviceId::HOST);
        let segments: Vec<&Segment> = snapshot.segments_of(Some(device)).chain(host).collect();
        let is_of_blocks = !has_requests(snapshot, device, &segments, entries);
        let times = Times::new(entries).rising();
        let lives = is_of_blocks.then(|| lives_of_heap(snapshot, device, entries, &segments));
        let holdings =
            lives.as_ref().map_or_else(|| holdings(&segments, entries), |lives| of_blocks(&lives.all));
        let moment_at = |time_us| times.n_until(time_us).checked_sub(1).map_or(Moment::START, Moment::after);
        let of_lives =
            |lives: &Lives| sights(resident, lives, moment_at, judge, &Mapped::of(snapshot, device));
        let sights = lives.as_ref().map(of_lives).unwrap_or_default();
        let owned = |holding: Holding| (holding, judge.of(holding.stack));
        let reports = usage.map(|usage| usage.reports.clone()).unwrap_or_default();
        let last_entry =
            entries.len().checked_sub(1).and_then(|last| times.get(last)).filter(|time_us| *time_us != 0);
        let last_look = sights.last().map(|sight| sight.time_us);
        let last_us = reports.last().map(time_of).into_iter().chain(last_entry).chain(last_look).max();
        let named =
            |text: fn(&DeviceUsage) -> &String| usage.map_or_else(String::new, |usage| text(usage).clone());
        let (name, holdings): (_, Vec<_>) =
            (named(|usage| &usage.name), holdings.into_iter().map(owned).collect());
        Part {
            number,
            stacks_of: number,
            device,
            rounded: Rounded::of(device, &name, &holdings),
            name,
            uuid: named(|usage| &usage.uuid),
            reports,
            holdings,
            sights,
            is_of_blocks,
            sample_bytes: ByDevice::new(snapshot).recorded(device).weight_bytes,
            times,
            n_entries: entries.len(),
            last_us,
        }
    }

    pub(super) fn end(&self) -> Moment {
        self.n_entries.checked_sub(1).map_or(Moment::START, Moment::after)
    }

    /// Returns the moment of a time; `None` if the process was gone.
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

    pub(super) fn held_at(&self, moment: Moment) -> impl Iterator<Item = &(Holding, Text)> {
        self.holdings.iter().filter(move |(holding, _)| holding.is_held_at(moment))
    }
}

fn lives_of_heap(
    snapshot: &Snapshot,
    device: DeviceId,
    entries: &[TraceEntry],
    segments: &[&Segment],
) -> Lives {
    let mut lives = Lives::new(entries, segments);
    lives.weigh(crate::model::RecordedDevices::new(snapshot).of(device));
    lives
}

/// Returns the time of a report, in microseconds since the Unix epoch.
pub(super) fn time_of(report: &TimedUsage) -> i64 {
    i64::try_from(report.time_us).unwrap_or(i64::MAX)
}
