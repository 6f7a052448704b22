//! The reports of what devices say is used, of the process's resident memory, and of what the program mapped itself: bounded,
//! in memory and in the tape's file.
#![forbid(unsafe_code)]

use std::{collections::BTreeMap, ops::Range, sync::Arc};

use super::{
    clock::{Scale, Ticks},
    mapped::{Mapped, MappedRange},
};
use crate::tape::{Note, TapeFile, UsageNote};
use memreel_snapshot::words::{DeviceId, DeviceUsage, ResidentReport, StackId, TimedUsage, UsageReport};

/// The reports of a series, beside the highest and the last.
const CAPACITY: usize = 4094;

/// The reports after which the tape's file gets the series anew, in place of all reports before: twice the series of a
/// device.
const WRITTEN: usize = 2 * CAPACITY;

/// The reports of one note.
const OF_NOTE: usize = 256;

/// The reports of resident memory, beside the highest and the last. Each is a list of areas.
const MOST_RESIDENT: usize = 14;

/// A report with its ticks.
pub(super) type Report = (Ticks, UsageReport);

/// What a series is of.
trait Reported {
    fn bytes(&self) -> u64;
}

impl Reported for UsageReport {
    fn bytes(&self) -> u64 {
        self.used_bytes
    }
}

impl Reported for ResidentReport {
    fn bytes(&self) -> u64 {
        self.resident_bytes
    }
}

/// The reports of a recorder.
#[derive(Debug, Default)]
pub(crate) struct Usage {
    devices: BTreeMap<DeviceId, Device>,
    resident: Series<ResidentReport, MOST_RESIDENT>,
    mapped: Mapped,
    file: Option<Arc<TapeFile>>,
    /// How many reports were written into the file since it got the series.
    n_written: usize,
}

#[derive(Debug, Default)]
struct Device {
    name: String,
    uuid: String,
    series: Series<UsageReport, CAPACITY>,
}

/// A bounded series: of `n` reports every `stride`-th, and the highest and the last.
#[derive(Debug)]
struct Series<R, const MOST: usize> {
    kept: Vec<(Ticks, R)>,
    /// A power of 2.
    stride: usize,
    n: usize,
    highest: Option<(Ticks, R)>,
    last: Option<(Ticks, R)>,
}

impl<R, const MOST: usize> Default for Series<R, MOST> {
    fn default() -> Self {
        Series { kept: Vec::new(), stride: 1, n: 0, highest: None, last: None }
    }
}

impl<R: Reported + Clone + PartialEq, const MOST: usize> Series<R, MOST> {
    fn push(&mut self, report: (Ticks, R)) {
        if self.n.is_multiple_of(self.stride) {
            if self.kept.len() == MOST {
                let mut is_odd = true;
                self.kept.retain(|_| {
                    is_odd = !is_odd;
                    !is_odd
                });
                self.stride *= 2;
            }
            if self.n.is_multiple_of(self.stride) {
                self.kept.push(report.clone());
            }
        }
        self.n += 1;
        if self.highest.as_ref().is_none_or(|(_, highest)| report.1.bytes() > highest.bytes()) {
            self.highest = Some(report.clone());
        }
        self.last = Some(report);
    }

    /// Returns the reports that are kept, oldest first.
    fn all(&self) -> Vec<(Ticks, R)> {
        let mut all: Vec<(Ticks, R)> =
            self.kept.iter().chain(&self.highest).chain(&self.last).cloned().collect();
        all.sort_by_key(|(at, _)| *at);
        all.dedup();
        all
    }
}

impl Usage {
    /// Sets the name of a device.
    pub(super) fn describe(&mut self, device: DeviceId, name: &str, uuid: &str) {
        let known = self.devices.entry(device).or_default();
        if known.name != name || known.uuid != uuid {
            (known.name, known.uuid) = (name.to_owned(), uuid.to_owned());
            self.write_name(device);
        }
    }

    /// Adds a report.
    pub(super) fn push(&mut self, device: DeviceId, report: Report) {
        self.devices.entry(device).or_default().series.push(report);
        self.write(device, report);
    }

    /// Adds a report of the process's resident memory.
    pub(crate) fn push_resident(&mut self, at: Ticks, report: ResidentReport) {
        self.write_resident(at, &report);
        self.resident.push((at, report));
    }

    /// Returns the reports of the process's resident memory, oldest first.
    pub(crate) fn resident(&self, scale: Scale) -> Vec<ResidentReport> {
        let timed = |(at, report)| ResidentReport { time_us: scale.micros(at), ..report };
        self.resident.all().into_iter().map(timed).collect()
    }

    /// Adds a range that the program mapped with this stack.
    pub(super) fn map(&mut self, range: Range<u64>, stack: StackId, at: Ticks) {
        self.change_mapped(|mapped, changed| mapped.map(range, stack, at, changed));
    }

    /// Ends what the program has mapped of a range.
    pub(super) fn unmap(&mut self, range: Range<u64>, at: Ticks) {
        self.change_mapped(|mapped, changed| mapped.unmap(range, at, changed));
    }

    /// Returns what the program has mapped, and what it had, with the microseconds since the Unix epoch from and until which
    /// each range was there.
    pub(crate) fn mapped(&self, scale: Scale) -> Vec<(MappedRange, [u64; 2])> {
        let timed = |of: &MappedRange| {
            let until_us = of.ended().map_or(u64::MAX, |until| scale.micros(until));
            (of.clone(), [scale.micros(of.from), until_us])
        };
        self.mapped.all().map(timed).collect()
    }

    /// Forgets the reports, and not the names of devices and what is mapped.
    pub(super) fn erase(&mut self) {
        self.resident = Series::default();
        self.devices.values_mut().for_each(|device| device.series = Series::default());
        self.mapped.forget_ended();
        self.write_all();
    }

    /// Returns every device that has a name or a report.
    pub(crate) fn all(&self, scale: Scale) -> Vec<DeviceUsage> {
        let timed = |(at, report)| TimedUsage { time_us: scale.micros(at), report };
        let of_device = |(device, known): (&DeviceId, &Device)| DeviceUsage {
            device: *device,
            name: known.name.clone(),
            uuid: known.uuid.clone(),
            reports: known.series.all().into_iter().map(timed).collect(),
        };
        self.devices.iter().map(of_device).collect()
    }
}

impl Usage {
    /// Sets the file of the tape, which gets everything that is known.
    pub(crate) fn set_file(&mut self, file: Option<Arc<TapeFile>>) {
        self.file = file;
        self.devices.keys().for_each(|device| self.write_name(*device));
        self.write_all();
    }

    fn write_name(&self, device: DeviceId) {
        if let (Some(file), Some(Device { name, uuid, .. })) = (&self.file, self.devices.get(&device)) {
            file.note(&Note::Device { device: device.0, name: name.clone(), uuid: uuid.clone() });
        }
    }

    fn write(&mut self, device: DeviceId, report: Report) {
        self.n_written += 1;
        if self.n_written > WRITTEN {
            return self.write_all();
        }
        if let Some(file) = &self.file {
            file.report(&Note::Usage { device: device.0, reports: vec![noted(&report)] });
        }
    }

    /// Writes a report before it is one of the series. All of them are written anew once a series of them was.
    fn write_resident(&mut self, at: Ticks, report: &ResidentReport) {
        self.n_written += WRITTEN / (2 * MOST_RESIDENT);
        if self.n_written > WRITTEN {
            self.write_all();
        }
        if let Some(file) = &self.file {
            file.report(&noted_resident(at, report));
        }
    }

    /// Changes what is mapped, and notes each change.
    fn change_mapped(&mut self, change: impl FnOnce(&mut Mapped, &mut dyn FnMut(&MappedRange))) {
        let Usage { mapped, file, n_written, .. } = self;
        change(mapped, &mut |changed| {
            *n_written += 1;
            if let Some(file) = file {
                file.report(&noted_mapped(changed));
            }
        });
        if self.n_written > WRITTEN {
            self.write_all();
        }
    }

    /// Writes the series into the file in place of all reports before, so that the file stays bounded.
    fn write_all(&mut self) {
        self.n_written = 0;
        let Some(file) = &self.file else { return };
        let notes = self.devices.iter().flat_map(|(device, known)| {
            let all: Vec<UsageNote> = known.series.all().iter().map(noted).collect();
            let note = |reports: &[UsageNote]| Note::Usage { device: device.0, reports: reports.to_vec() };
            all.chunks(OF_NOTE).map(note).collect::<Vec<Note>>()
        });
        let of_process = self.resident.all().into_iter().map(|(at, report)| noted_resident(at, &report));
        let mapped = self.mapped.all().map(noted_mapped);
        file.replace_reports(notes.chain(of_process).chain(mapped));
    }

    /// Returns the reports of a tape. A report that is there twice counts once: the file may have been read while its
    /// series was written anew.
    pub(crate) fn of_notes(
        names: Vec<(DeviceId, String, String)>,
        mut reports: Vec<(DeviceId, UsageNote)>,
        mut of_process: Vec<(u64, Box<ResidentReport>)>,
        mapped: Vec<MappedRange>,
    ) -> Usage {
        let mut usage = Usage { mapped: Mapped::of_notes(mapped), ..Usage::default() };
        names.iter().for_each(|(device, name, uuid)| usage.describe(*device, name, uuid));
        reports.sort_by_key(|(device, note)| (*device, note.ticks));
        reports.dedup();
        for (device, UsageNote { ticks, report }) in reports {
            usage.push(device, (Ticks(ticks), report));
        }
        of_process.sort_by_key(|(ticks, _)| *ticks);
        of_process.dedup();
        of_process.into_iter().for_each(|(ticks, report)| usage.push_resident(Ticks(ticks), *report));
        usage
    }
}

fn noted((Ticks(ticks), report): &Report) -> UsageNote {
    UsageNote { ticks: *ticks, report: *report }
}

fn noted_resident(Ticks(ticks): Ticks, report: &ResidentReport) -> Note {
    Note::Resident { ticks, report: Box::new(report.clone()) }
}

fn noted_mapped(MappedRange { range, stack, from, until }: &MappedRange) -> Note {
    Note::Mapped { start: range.start, end: range.end, stack: stack.0, from: from.0, until: until.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::testing::random::Random;

    fn report(at: u64, used_bytes: u64) -> Report {
        (Ticks(at), UsageReport { used_bytes, ..UsageReport::default() })
    }

    /// Against the whole list of reports.
    #[test]
    fn a_series_is_bounded_and_keeps_the_highest_and_the_last() {
        for seed in 0..40 {
            let mut random = Random::new(seed);
            let n = 1 + random.below(40_000);
            let mut series = Series::<UsageReport, CAPACITY>::default();
            let all: Vec<Report> = (0..n).map(|at| report(at, random.below(1 << 20))).collect();
            all.iter().for_each(|report| series.push(*report));
            let kept = series.all();
            assert!(kept.len() <= CAPACITY + 2, "seed {seed}");
            assert!(kept.len() as u64 >= n.min(CAPACITY as u64 / 2), "seed {seed}");
            assert!(kept.is_sorted_by(|a, b| a.0 < b.0), "seed {seed}");
            assert!(kept.iter().all(|report| all.contains(report) || n > 5_000), "seed {seed}");
            assert_eq!(kept.last(), all.last(), "seed {seed}");
            let highest = |reports: &[Report]| reports.iter().map(|(_, report)| report.used_bytes).max();
            assert_eq!(highest(&kept), highest(&all), "seed {seed}");
            let strides: Vec<u64> = series.kept.windows(2).map(|pair| pair[1].0.0 - pair[0].0.0).collect();
            assert!(strides.iter().all(|stride| *stride == series.stride as u64), "seed {seed}");
        }
    }
}
