//! The reports of what devices say is used: a bounded series for each device, in memory and in the tape's file.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;
#[cfg(not(loom))]
use std::sync::Arc;

use super::clock::{Scale, Ticks};
#[cfg(not(loom))]
use crate::tape::{Note, TapeFile, UsageNote};
use memreel_snapshot::words::{DeviceId, DeviceUsage, TimedUsage, UsageReport};

/// The reports of a series, beside the highest and the last.
const CAPACITY: usize = 4094;

/// The reports after which the tape's file gets the series anew, in place of all reports before: twice the series of a
/// device.
#[cfg(not(loom))]
const WRITTEN: usize = 2 * CAPACITY;

/// The reports of one note.
#[cfg(not(loom))]
const OF_NOTE: usize = 256;

/// A report with its ticks.
pub(super) type Report = (Ticks, UsageReport);

/// The reports of a recorder.
#[derive(Debug, Default)]
pub(super) struct Usage {
    devices: BTreeMap<DeviceId, Device>,
    #[cfg(not(loom))]
    file: Option<Arc<TapeFile>>,
    /// How many reports were written into the file since it got the series.
    #[cfg(not(loom))]
    n_written: usize,
}

#[derive(Debug, Default)]
struct Device {
    name: String,
    uuid: String,
    series: Series,
}

/// A bounded series: of `n` reports every `stride`-th, and the highest and the last.
#[derive(Debug)]
struct Series {
    kept: Vec<Report>,
    /// A power of 2.
    stride: usize,
    n: usize,
    highest: Option<Report>,
    last: Option<Report>,
}

impl Default for Series {
    fn default() -> Self {
        Series { kept: Vec::new(), stride: 1, n: 0, highest: None, last: None }
    }
}

impl Series {
    fn push(&mut self, report: Report) {
        if self.n.is_multiple_of(self.stride) {
            if self.kept.len() == CAPACITY {
                let mut is_odd = true;
                self.kept.retain(|_| {
                    is_odd = !is_odd;
                    !is_odd
                });
                self.stride *= 2;
            }
            if self.n.is_multiple_of(self.stride) {
                self.kept.push(report);
            }
        }
        self.n += 1;
        self.last = Some(report);
        if self.highest.is_none_or(|(_, highest)| report.1.used_bytes > highest.used_bytes) {
            self.highest = Some(report);
        }
    }

    /// Returns the reports that are kept, oldest first.
    fn all(&self) -> Vec<Report> {
        let mut all: Vec<Report> = self.kept.iter().copied().chain(self.highest).chain(self.last).collect();
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
            #[cfg(not(loom))]
            self.write_name(device);
        }
    }

    /// Adds a report.
    pub(super) fn push(&mut self, device: DeviceId, report: Report) {
        self.devices.entry(device).or_default().series.push(report);
        #[cfg(not(loom))]
        self.write(device, report);
    }

    /// Forgets the reports, and not the names of devices.
    pub(super) fn erase(&mut self) {
        self.devices.values_mut().for_each(|device| device.series = Series::default());
        #[cfg(not(loom))]
        self.write_all();
    }

    /// Returns every device that has a name or a report.
    pub(super) fn all(&self, scale: Scale) -> Vec<DeviceUsage> {
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

#[cfg(not(loom))]
impl Usage {
    /// Sets the file of the tape, which gets everything that is known.
    pub(super) fn set_file(&mut self, file: Option<Arc<TapeFile>>) {
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

    /// Writes the series into the file in place of all reports before, so that the file stays bounded.
    fn write_all(&mut self) {
        self.n_written = 0;
        let Some(file) = &self.file else { return };
        let notes = self.devices.iter().flat_map(|(device, known)| {
            let all: Vec<UsageNote> = known.series.all().iter().map(noted).collect();
            let note = |reports: &[UsageNote]| Note::Usage { device: device.0, reports: reports.to_vec() };
            all.chunks(OF_NOTE).map(note).collect::<Vec<Note>>()
        });
        file.replace_reports(notes);
    }

    /// Returns the reports of a tape. A report that is there twice counts once: the file may have been read while its
    /// series was written anew.
    pub(super) fn of_notes(
        names: Vec<(DeviceId, String, String)>,
        mut reports: Vec<(DeviceId, UsageNote)>,
    ) -> Usage {
        let mut usage = Usage::default();
        names.iter().for_each(|(device, name, uuid)| usage.describe(*device, name, uuid));
        reports.sort_by_key(|(device, note)| (*device, note.ticks));
        reports.dedup();
        for (device, UsageNote { ticks, report }) in reports {
            usage.push(device, (Ticks(ticks), report));
        }
        usage
    }
}

#[cfg(not(loom))]
fn noted((Ticks(ticks), report): &Report) -> UsageNote {
    UsageNote { ticks: *ticks, report: *report }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::random::Random;

    fn report(at: u64, used_bytes: u64) -> Report {
        (Ticks(at), UsageReport { used_bytes, ..UsageReport::default() })
    }

    /// Against the whole list of reports.
    #[test]
    fn a_series_is_bounded_and_keeps_the_highest_and_the_last() {
        for seed in 0..40 {
            let mut random = Random::new(seed);
            let n = 1 + random.below(40_000);
            let mut series = Series::default();
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
