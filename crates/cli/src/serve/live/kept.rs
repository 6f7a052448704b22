//! What the page keeps about the devices: the latest figures, and their curves.

#![forbid(unsafe_code)]

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    path::PathBuf,
    time::UNIX_EPOCH,
};

use memreel_snapshot::DeviceId;
use serde_json::{Value, json};

use super::curve::Curve;
use crate::run::figures::{Figures, SiteBytes};

/// The most devices of processes that have ended.
const MAX_ENDED: usize = 64;

type Key = (String, DeviceId);

#[derive(Debug, Default)]
pub(super) struct KeptDevices {
    devices: BTreeMap<Key, Device>,
    /// The devices of processes that have ended, the first that ended first.
    ended: VecDeque<Key>,
    now_us: u64,
}

/// Returns what the page draws of a look: the figures, with the text of each site that `memreel watch` shows.
fn drawn(figures: &Figures) -> Value {
    let mut row = serde_json::to_value(figures).unwrap_or_default();
    for (name, sites) in [
        ("holders", &figures.holders),
        ("grown_in_a_minute", &figures.grown_in_a_minute),
        ("grown_since_begin", &figures.grown_since_begin),
    ] {
        let of = |site: &SiteBytes| json!({ "bytes": site.bytes, "text": site.distinct_text });
        row[name] = sites.iter().map(of).collect();
    }
    row
}

#[derive(Debug, Default)]
struct Device {
    figures: Value,
    is_running: bool,
    curve: Curve,
}

impl KeptDevices {
    /// Takes the figures of a look.
    pub(super) fn take(&mut self, all: &[Figures]) {
        self.now_us = UNIX_EPOCH
            .elapsed()
            .map_or(0, |since| u64::try_from(since.as_micros()).unwrap_or(u64::MAX))
            // A clock that is set back makes no curve that runs backward.
            .max(self.now_us);
        let mut seen = BTreeSet::new();
        for figures in all {
            let key = (figures.file.clone(), figures.device);
            let device = self.devices.entry(key.clone()).or_default();
            device.figures = drawn(figures);
            device.is_running = figures.is_running;
            device.curve.add(self.now_us, figures.used_bytes.unwrap_or(figures.live_bytes));
            if figures.is_running {
                seen.insert(key);
            }
        }
        // Before a process uses its first device, all of its devices are shown; then one that it does not use is gone.
        let running: BTreeSet<&String> = seen.iter().map(|(file, _)| file).collect();
        self.devices.retain(|key, _| seen.contains(key) || !running.contains(&key.0));
        for (key, device) in &mut self.devices {
            if !seen.contains(key) && !self.ended.contains(key) {
                device.is_running = false;
                self.ended.push_back(key.clone());
            }
        }
        // A tape that grows again, such as after a look that failed.
        self.ended.retain(|key| !seen.contains(key));
        while self.ended.len() > MAX_ENDED {
            self.ended.pop_front().and_then(|key| self.devices.remove(&key));
        }
    }

    /// Returns what the page draws.
    pub(super) fn text(&self) -> Value {
        let row = |device: &Device| {
            let mut row = device.figures.clone();
            row["is_running"] = device.is_running.into();
            row["curve"] = json!(device.curve.points());
            row
        };
        json!({ "now_us": self.now_us, "devices": self.devices.values().map(row).collect::<Vec<_>>() })
    }

    /// Returns the tapes that are still there.
    pub(super) fn tapes(&self) -> Vec<PathBuf> {
        let tapes: BTreeSet<&String> = self.devices.keys().map(|(tape, _)| tape).collect();
        tapes.into_iter().map(PathBuf::from).filter(|tape| tape.exists()).collect()
    }
}
