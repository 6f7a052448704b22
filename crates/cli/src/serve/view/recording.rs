//! A recording: a file that is read, with its devices.

#![forbid(unsafe_code)]

use std::hash::Hash;

use memreel_snapshot::{
    Action, DeviceId, Snapshot,
    analysis::{Histories, devices},
    history::{Moment, ScopeSpan},
    model::StackTable,
    words::{SeededMap, SeededSet},
};
use serde_json::{Value, json};

use super::{device::Device, groups::Colour, refusal::Refusal, words::cut};
use crate::{
    input::own_memory::is_host,
    text::{clean, warnings::warnings},
};

/// The most markers and scopes of a device in an answer.
const MAX_MARKERS: usize = 1000;
const MAX_SCOPES: usize = 5000;

/// The devices of one file.
pub(super) struct Recording<'a> {
    pub(super) devices: Vec<Device<'a>>,
    /// The places of the devices, by their numbers.
    places: SeededMap<i64, usize>,
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
        let (limits, with_segments) = (limits(snapshot), with_segments(snapshot));
        let describe = |device: &Device<'_>| {
            describe(device, limits.get(&device.id).copied(), with_segments.contains(&device.id))
        };
        let described = devices.iter().map(describe).collect();
        let places = devices.iter().map(|device| device.id.0).zip(0..).collect();
        Recording { devices, places, described }
    }

    /// Returns the device of a number, or the only one.
    pub(super) fn device(&self, number: Option<i64>) -> Result<&Device<'a>, Refusal> {
        let found = match number {
            None => self.devices.first(),
            Some(number) => self.places.get(&number).and_then(|place| self.devices.get(*place)),
        };
        found.ok_or_else(|| Refusal::missing("there is no such device in the file"))
    }

    /// Returns what the page needs of each device before it draws.
    pub(super) fn described(&self) -> &[Value] {
        &self.described
    }
}

/// Returns what is described of a device that has this limit.
fn describe(device: &Device<'_>, limit_bytes: Option<u64>, has_segments: bool) -> Value {
    let history = &device.history;
    let (scopes, n_scopes) = scopes(device);
    let has_times = history.span_us().is_some();
    let names = |colour| names(device, colour);
    json!({
        "device": device.id,
        "n_events": history.entries().len(),
        "first_us": device.first_us().filter(|_| has_times),
        "last_us": device.last_us().filter(|_| has_times),
        "peak": super::state::totals(device, device.peak),
        "top_bytes": device.top_bytes,
        "limit_bytes": limit_bytes,
        "n_lives": history.lives().len(),
        "markers": markers(device),
        "scopes": scopes,
        "n_scopes": n_scopes,
        "streams": streams(device),
        "pools": names(Colour::Pool),
        "owners": names(Colour::Owner),
        "has_stacks": has_stacks(device),
        "has_segments": has_segments,
        "is_host": is_host(&history.snapshot().usage(), device.id),
        "warnings": warnings(history),
        "is_exact": history.trust().is_exact(),
    })
}

/// The most names of pools, owners and streams.
const MAX_NAMES: usize = 200;

fn names<'d>(device: &'d Device<'_>, colour: Colour) -> Vec<&'d str> {
    device.groups(colour).names.iter().take(MAX_NAMES).map(String::as_str).collect()
}

/// Returns the bytes that each device has, as far as they were reported.
fn limits(snapshot: &Snapshot) -> SeededMap<DeviceId, u64> {
    let mut limits = SeededMap::default();
    for usage in snapshot.usage() {
        if let Some(last) = usage.reports.last() {
            limits.entry(usage.device).or_insert(last.report.total_bytes);
        }
    }
    limits.retain(|_, bytes| *bytes > 0);
    limits
}

/// Returns the devices that have segments at the end.
fn with_segments(snapshot: &Snapshot) -> SeededSet<DeviceId> {
    let of_host = (!snapshot.host_segments.is_empty()).then_some(DeviceId::HOST);
    snapshot.segments.iter().map(|segment| segment.device).chain(of_host).collect()
}

/// Whether a block has a stack.
fn has_stacks(device: &Device<'_>) -> bool {
    device.history.lives().iter().any(|life| life.stack.is_some_and(|stack| stack != StackTable::EMPTY))
}

fn streams(device: &Device<'_>) -> Vec<i64> {
    first_different(device.history.lives().iter().map(|life| life.stream.0), MAX_NAMES)
}

/// Returns the first `most` values that differ from those before.
fn first_different<T: Copy + Eq + Hash>(all: impl Iterator<Item = T>, most: usize) -> Vec<T> {
    let mut seen = SeededSet::default();
    all.filter(|value| seen.insert(*value)).take(most).collect()
}

fn markers(device: &Device<'_>) -> Vec<Value> {
    let entries = device.history.entries();
    let marker =
        |moment: Moment, kind: &str, text: String| json!({ "moment": moment.0, "kind": kind, "text": text });
    let peak = marker(device.peak.moment, "peak", "the most bytes in use".to_owned());
    let of_entries = entries.iter().enumerate().filter_map(|(at, entry)| match entry.action {
        Some(Action::Oom) => {
            let text = format!(
                "out of memory: a request of {} failed",
                memreel_snapshot::analysis::Bytes(entry.size)
            );
            Some(marker(Moment::after(at), "oom", text))
        }
        Some(Action::Snapshot) => {
            Some(marker(Moment::after(at), "snapshot", "a snapshot was taken".to_owned()))
        }
        _ => None,
    });
    let mut markers: Vec<Value> = of_entries.collect();
    // Of many failures, the last are those that ended the program.
    let n_earlier = markers.len().saturating_sub(MAX_MARKERS);
    markers.drain(..n_earlier);
    markers.insert(0, peak);
    markers
}

/// Returns the scopes of the ruler, each with its stretch and its depth, and how many there are in all.
fn scopes(device: &Device<'_>) -> (Vec<Value>, usize) {
    let spans = device.history.scopes().spans();
    let row = |scope: &ScopeSpan| {
        json!({
            "name": cut(&clean(&scope.name)), "path": cut(&clean(&scope.path)),
            "from": scope.entries.start, "until": scope.entries.end, "depth": scope.depth,
        })
    };
    // Of too many, the outer ones are shown.
    (spans.iter().take(MAX_SCOPES).map(row).collect(), spans.len())
}

#[cfg(test)]
mod tests {
    use std::{cell::Cell, hash::Hasher};

    use super::*;
    use crate::serve::view::{
        compare,
        samples::{request, snapshot},
    };

    /// A value that counts how often values are compared.
    #[derive(Clone, Copy, Debug, Eq)]
    struct Counted<'a>(u32, &'a Cell<u32>);

    impl PartialEq for Counted<'_> {
        fn eq(&self, other: &Self) -> bool {
            self.1.set(self.1.get() + 1);
            self.0 == other.0
        }
    }

    impl Hash for Counted<'_> {
        fn hash<H: Hasher>(&self, state: &mut H) {
            self.0.hash(state);
        }
    }

    #[test]
    fn streams_are_not_compared_each_with_each() {
        let n_compared = Cell::new(0);
        let found = first_different((0..20_000).map(|n| Counted(n % 190, &n_compared)), 200);
        assert_eq!(found.iter().map(|of| of.0).collect::<Vec<_>>(), (0..190).collect::<Vec<_>>());
        assert!(n_compared.get() < 60_000, "{}", n_compared.get());
    }

    #[test]
    fn pinned_host_memory_is_a_device() {
        let mut snapshot = snapshot(3, 100);
        snapshot.host_traces = snapshot.device_traces[0].clone();
        snapshot.host_segments.clone_from(&snapshot.segments);
        let recording = Recording::new(&snapshot);
        let devices: Vec<i64> = recording.devices.iter().map(|device| device.id.0).collect();
        assert_eq!(devices, [0, -1]);
        let (device, host) = (&recording.devices[0], &recording.devices[1]);
        assert_eq!(host.history.lives(), device.history.lives());
        assert_eq!(host.peak, device.peak);
        assert!(compare::whatif(&request("whatif?conf=expandable_segments:True"), host).is_err());
    }
}
