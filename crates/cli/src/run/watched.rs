//! Watches one process: its tape, what it held before, and how fast it allocates.

#![forbid(unsafe_code)]

use std::{
    collections::{BTreeMap, VecDeque},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use memreel::{FollowedDevice, Follower, LiveSums, Recovered, whatif::explain};
use memreel_snapshot::{DeviceId, Error, Snapshot, analysis::DeviceHistory};

use super::{
    detail::Detail,
    figures::{Figures, HeldByProcess, Oom, Totals, saturated},
    found::Readable,
    tape_file::TapeFile,
};
use crate::text::clean_display;

/// The time over which recent growth is counted.
const RECENT: Duration = Duration::from_secs(60);

/// The time between two moments that are kept of the last minute; at first a part of the time so far.
const BETWEEN: Duration = Duration::from_secs(5);
const BETWEEN_PART: u32 = 8;

/// How long the watch has begun only: growth since then is from what was held meanwhile.
const BEGIN: Duration = Duration::from_secs(10);

/// A watched process.
#[derive(Debug)]
pub(crate) struct Watched {
    pub(crate) path: PathBuf,
    /// By which the tape is read.
    tape: Readable,
    pub(crate) rank: Option<String>,
    follower: Follower,
    detail: Detail,
    begun: Instant,
    /// What was held at moments near the start, oldest first.
    early: Vec<LiveSums>,
    /// What was held at moments of the last minute, oldest first.
    recent: VecDeque<(Instant, LiveSums)>,
    rates: BTreeMap<DeviceId, Rate>,
    /// The number of failed requests on each device, and why the newest one failed.
    reasons: BTreeMap<DeviceId, (u64, Option<String>)>,
    /// Why the tape cannot be read any more.
    lost: Option<String>,
}

/// How fast a device allocates.
#[derive(Clone, Copy, Debug)]
struct Rate {
    at: Instant,
    n_allocs: u64,
    allocated_bytes: u64,
    per_s: (u64, u64),
}

impl Watched {
    pub(crate) fn attach(path: &Path, detail: Detail) -> memreel::Result<Watched> {
        let attach = if detail.from_start { Follower::attach_from_start } else { Follower::attach };
        let tape = Readable::of(path).map_err(|error| Error::io("cannot read the tape", path, error))?;
        let follower = attach(tape.path())?;
        let early = vec![follower.sums()];
        let (begun, rank) = (Instant::now(), TapeFile::of(path).and_then(|tape| tape.rank));
        let recent = VecDeque::from([(begun, early[0].clone())]);
        let (path, rates, reasons) = (path.to_owned(), BTreeMap::new(), BTreeMap::new());
        Ok(Watched { path, tape, rank, follower, detail, begun, early, recent, rates, reasons, lost: None })
    }

    pub(crate) fn process(&self) -> u32 {
        self.follower.process()
    }

    pub(crate) fn is_running(&self) -> bool {
        self.lost.is_none() && self.follower.is_running() && !self.follower.is_closed()
    }

    pub(crate) fn devices(&self) -> Vec<FollowedDevice> {
        self.follower.devices()
    }

    /// Returns what is held now, with a snapshot of the sums.
    pub(crate) fn held(&self) -> (LiveSums, Snapshot) {
        let sums = self.follower.sums();
        let snapshot = self.follower.snapshot_of(&sums);
        (sums, snapshot)
    }

    /// Reads what is new. Its events count with the next reading.
    pub(crate) fn read(&mut self) {
        if self.lost.is_none()
            && let Err(error) = self.follower.look()
        {
            self.lost = Some(error.to_string());
        }
    }

    /// Reads what is new, soon after [`Watched::read`], and compares it with the looks before.
    pub(crate) fn look(&mut self) {
        self.read();
        let now = Instant::now();
        let between = BETWEEN.min(now.duration_since(self.begun) / BETWEEN_PART);
        if self.recent.back().is_none_or(|(at, _)| now.duration_since(*at) >= between) {
            let sums = self.follower.sums();
            if now.duration_since(self.begun) < BEGIN {
                self.early.push(sums.clone());
            }
            self.recent.push_back((now, sums));
        }
        // The oldest that is kept is a minute old, as far as there is one.
        while self.recent.get(1).is_some_and(|(at, _)| now.duration_since(*at) >= RECENT) {
            self.recent.pop_front();
        }
        for device in self.follower.devices() {
            self.count(&device, now);
            if self.detail.explains {
                self.explain(&device);
            }
        }
    }

    fn count(&mut self, device: &FollowedDevice, now: Instant) {
        let FollowedDevice { n_allocs, allocated_bytes, .. } = *device;
        let new = Rate { at: now, n_allocs, allocated_bytes, per_s: (0, 0) };
        let rate = self.rates.entry(device.device).or_insert(new);
        let ms = u64::try_from(now.duration_since(rate.at).as_millis()).unwrap_or(u64::MAX);
        // Readings that follow immediately show nothing about the rate.
        if ms >= 100 {
            let per_s = |after: u64, before: u64| after.saturating_sub(before).saturating_mul(1000) / ms;
            let per_s = (per_s(n_allocs, rate.n_allocs), per_s(allocated_bytes, rate.allocated_bytes));
            *rate = Rate { per_s, ..new };
        }
    }

    /// Finds out why the newest request failed, once for each number of failed requests: the whole tape is read for it.
    fn explain(&mut self, device: &FollowedDevice) {
        let known = self.reasons.get(&device.device).map_or(0, |(n_ooms, _)| *n_ooms);
        if device.n_ooms > known {
            let why = Recovered::read(self.tape.path()).ok().and_then(|tape| {
                let snapshot = tape.snapshot();
                let history = DeviceHistory::new(&snapshot, device.device);
                let report = history.oom()?;
                Some(explain(&history, report).causes().swap_remove(0).finding)
            });
            self.reasons.insert(device.device, (device.n_ooms, why));
        }
    }

    /// Returns the allocations a second of all devices.
    pub(crate) fn allocations_per_s(&self) -> u64 {
        self.rates.values().map(|rate| rate.per_s.0).fold(0, u64::saturating_add)
    }

    /// Returns the newest failed request of each device that has one.
    pub(crate) fn n_ooms(&self) -> u64 {
        self.reasons.values().map(|(n_ooms, _)| *n_ooms).fold(0, u64::saturating_add)
    }

    /// Returns what is shown of each device.
    pub(crate) fn figures(&self) -> Vec<Figures> {
        let mut devices = self.follower.devices();
        // A process can have tapes of devices that it never used.
        let is_used = |device: &FollowedDevice| {
            device.report.is_some() || device.peak_bytes | device.reserved_bytes | device.n_ooms > 0
        };
        if devices.iter().any(is_used) {
            devices.retain(is_used);
        }
        let now = self.follower.sums();
        let before = self.detail.explains.then(|| self.before_growth(&now));
        let mut held = HeldByProcess::of(&self.follower, &now, before, &devices, self.detail);
        let minute = self.recent.front().map_or(&now, |(_, sums)| sums);
        let mut problems = self.follower.problems();
        problems.extend(self.lost.clone());
        let watched_us = u64::try_from(self.begun.elapsed().as_micros()).unwrap_or(u64::MAX);
        let of = |device: FollowedDevice| {
            let rate = self.rates.get(&device.device).map_or((0, 0), |rate| rate.per_s);
            let held = held.take(device.device);
            let grown = i128::from(device.live_bytes) - i128::from(minute.live_bytes(device.device));
            Figures {
                file: self.path.display().to_string(),
                process: self.follower.process(),
                rank: self.rank.clone(),
                is_running: self.is_running(),
                device: device.device,
                used_bytes: device.report.map(|report| report.used_bytes),
                used_peak_bytes: device.used_peak_bytes,
                limit_bytes: device.report.map(|report| report.total_bytes).filter(|bytes| *bytes > 0),
                live_bytes: device.live_bytes,
                live_peak_bytes: device.peak_bytes,
                reserved_bytes: device.reserved_bytes,
                n_live: device.n_live,
                allocations_per_s: rate.0,
                allocated_bytes_per_s: rate.1,
                totals: Totals {
                    n_allocs: device.n_allocs,
                    allocated_bytes: device.allocated_bytes,
                    n_frees: device.n_frees,
                    n_ooms: device.n_ooms,
                    grown_in_a_minute: saturated(grown),
                },
                owners: held.owners,
                holders: held.holders,
                grown_in_a_minute: held.grown_in_a_minute,
                grown_since_begin: held.grown_since_begin,
                watched_us,
                oom: self.oom(&device),
                n_anew: self.follower.n_anew(),
                problems: problems.clone(),
                name: clean_display(device.name),
            }
        };
        devices.into_iter().map(of).collect()
    }

    /// Returns what was held a minute ago and when the watch began, without what only went up and down since.
    fn before_growth(&self, now: &LiveSums) -> [LiveSums; 2] {
        let mut recent: Vec<&LiveSums> = self.recent.iter().map(|(_, sums)| sums).collect();
        recent.push(now);
        let early: Vec<&LiveSums> = self.early.iter().collect();
        let n_early = self.recent.iter().filter(|(at, _)| at.duration_since(self.begun) < BEGIN).count();
        let since_begin = match self.begun.elapsed() < 2 * BEGIN {
            true => recent.split_at(recent.len() / 2),
            false => (&early[..], &recent[n_early..]),
        };
        let in_a_minute = recent.split_at(recent.len() / 2);
        [in_a_minute, since_begin].map(|(earlier, later)| LiveSums::before_growth(earlier, later))
    }

    fn oom(&self, device: &FollowedDevice) -> Option<Oom> {
        let (n_ooms, why) = self.reasons.get(&device.device)?;
        Some(Oom {
            time_us: device.last_oom_us,
            requested_bytes: device.last_oom_bytes,
            n_ooms: *n_ooms,
            why: why.clone(),
        })
    }
}
