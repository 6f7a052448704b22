//! A recording: a file that is read, with its devices.

#![forbid(unsafe_code)]

use std::ops::Range;

use memreel::{
    Action, Snapshot,
    analysis::{Histories, devices},
    history::Moment,
};
use serde_json::{Value, json};

use super::{device::Device, groups::Colour, refusal::Refusal};
use crate::text::clean;

/// The most markers and scopes of a device in an answer.
const MAX_MARKERS: usize = 1000;
const MAX_SCOPES: usize = 5000;

/// The devices of one file.
pub(super) struct Recording<'a> {
    pub(super) devices: Vec<Device<'a>>,
    described: Vec<Value>,
}

impl<'a> Recording<'a> {
    pub(super) fn new(snapshot: &'a Snapshot) -> Recording<'a> {
        let histories = Histories::new(snapshot);
        let mut ids = devices(snapshot);
        if ids.is_empty() {
            ids.push(0.into());
        }
        let devices: Vec<Device<'a>> = ids.into_iter().map(|id| Device::new(histories.of(id), id)).collect();
        let described = devices.iter().map(describe).collect();
        Recording { devices, described }
    }

    /// Returns the device of a number, or the only one.
    pub(super) fn device(&self, number: Option<i64>) -> Result<&Device<'a>, Refusal> {
        let found = match number {
            None => self.devices.first(),
            Some(number) => self.devices.iter().find(|device| device.id.0 == number),
        };
        found.ok_or_else(|| Refusal::missing("there is no such device in the file"))
    }

    /// Returns what the page needs of each device before it draws.
    pub(super) fn described(&self) -> &[Value] {
        &self.described
    }
}

fn describe(device: &Device<'_>) -> Value {
    let history = &device.history;
    let (scopes, n_scopes) = scopes(device);
    let names = |colour| names(device, colour);
    let usage = history.snapshot().usage();
    let limit = usage
        .iter()
        .find(|usage| usage.device == device.id)
        .and_then(|usage| Some(usage.reports.last()?.report.total_bytes));
    json!({
        "device": device.id,
        "n_events": history.entries().len(),
        "first_us": device.first_us(),
        "last_us": device.time_us(history.end()),
        "peak": super::state::totals(device, device.peak),
        "top_bytes": device.top_bytes,
        "limit_bytes": limit.filter(|bytes| *bytes > 0),
        "n_lives": history.lives().len(),
        "markers": markers(device),
        "scopes": scopes,
        "n_scopes": n_scopes,
        "streams": streams(device),
        "pools": names(Colour::Pool),
        "owners": names(Colour::Owner),
        "warnings": history.trust().warnings(),
        "is_exact": history.trust().is_exact(),
    })
}

/// The most names of pools, owners and streams.
const MAX_NAMES: usize = 200;

fn names<'d>(device: &'d Device<'_>, colour: Colour) -> Vec<&'d str> {
    device.groups(colour).names.iter().take(MAX_NAMES).map(String::as_str).collect()
}

fn streams(device: &Device<'_>) -> Vec<i64> {
    let mut streams: Vec<i64> = Vec::new();
    for life in device.history.lives() {
        if !streams.contains(&life.stream.0) && streams.len() < MAX_NAMES {
            streams.push(life.stream.0);
        }
    }
    streams
}

fn markers(device: &Device<'_>) -> Vec<Value> {
    let entries = device.history.entries();
    let marker =
        |moment: Moment, kind: &str, text: String| json!({ "moment": moment.0, "kind": kind, "text": text });
    let peak = marker(device.peak.moment, "peak", "the most bytes in use".to_owned());
    let of_entries = entries.iter().enumerate().filter_map(|(at, entry)| match entry.action {
        Some(Action::Oom) => {
            let text = format!("out of memory: a request of {} failed", memreel::analysis::Bytes(entry.size));
            Some(marker(Moment::after(at), "oom", text))
        }
        Some(Action::Snapshot) => {
            Some(marker(Moment::after(at), "snapshot", "a snapshot was taken".to_owned()))
        }
        _ => None,
    });
    std::iter::once(peak).chain(of_entries.take(MAX_MARKERS)).collect()
}

/// A scope of the ruler.
struct Open<'p> {
    name: &'p str,
    from: usize,
    until: usize,
}

/// Returns the scopes of the ruler, each with its stretch and its depth, and how many there are in all.
fn scopes(device: &Device<'_>) -> (Vec<Value>, usize) {
    let scopes = device.history.scopes();
    let stretches = scopes.stretches();
    let mut open: Vec<Open<'_>> = Vec::new();
    let (mut closed, mut n_closed) = (Vec::new(), 0);
    let mut close = |open: &mut Vec<Open<'_>>, depth: usize| {
        while open.len() > depth {
            let Some(scope) = open.pop() else { break };
            n_closed += 1;
            if closed.len() < MAX_SCOPES {
                closed.push(json!({
                    "name": clean(scope.name), "from": scope.from, "until": scope.until, "depth": open.len(),
                }));
            }
        }
    };
    let paths: Vec<(Range<usize>, String)> =
        stretches.into_iter().map(|(range, path)| (range, path.to_string())).collect();
    for (range, path) in &paths {
        let path: Vec<&str> = path.split('/').collect();
        let is_same =
            |(depth, name): (usize, &&str)| open.get(depth).is_some_and(|scope| scope.name == *name);
        let n_same = path.iter().enumerate().take_while(|(depth, name)| is_same((*depth, *name))).count();
        // After a stretch outside of every scope, a scope of the same name is another one.
        let is_adjacent = open.first().is_none_or(|outer| outer.until == range.start);
        let n_kept = if is_adjacent { n_same } else { 0 };
        close(&mut open, n_kept);
        for name in &path[n_kept..] {
            open.push(Open { name, from: range.start, until: range.end });
        }
        open.iter_mut().for_each(|scope| scope.until = range.end);
    }
    close(&mut open, 0);
    (closed, n_closed)
}
