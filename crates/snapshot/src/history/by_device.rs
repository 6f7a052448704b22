//! Finds the segments and annotations of each device in one pass over a snapshot.
//!
//! A merged file can have thousands of devices. A question that filtered all segments once for each of them would take
//! time that is quadratic in the file.

use std::{collections::BTreeMap, sync::OnceLock};

use crate::{
    model::{Annotation, RecordedDevices, RecordedSettings, Segment, Snapshot, Text, Value},
    words::{DeviceId, SeededMap},
};

/// The records of each device of one snapshot. Each list is created when it is first needed.
#[derive(Debug)]
pub struct ByDevice<'a> {
    snapshot: &'a Snapshot,
    segments: OnceLock<Places>,
    annotations: OnceLock<Places>,
    recorded: OnceLock<RecordedDevices>,
    /// The index of each allocator setting among all.
    settings: OnceLock<SeededMap<Text, usize>>,
}

/// By device, indices in a list of the snapshot, in ascending order.
type Places = BTreeMap<DeviceId, Vec<usize>>;

impl<'a> ByDevice<'a> {
    /// Sorts the records of a snapshot by device.
    pub fn new(snapshot: &'a Snapshot) -> ByDevice<'a> {
        ByDevice {
            snapshot,
            segments: OnceLock::new(),
            annotations: OnceLock::new(),
            recorded: OnceLock::new(),
            settings: OnceLock::new(),
        }
    }

    /// Returns the snapshot.
    pub fn snapshot(&self) -> &'a Snapshot {
        self.snapshot
    }

    /// Returns the segments of a device with their indices, in the order of the file. Those of pinned host memory are a list of
    /// their own, with its own indices.
    pub fn segments(&self, device: impl Into<DeviceId>) -> impl Iterator<Item = (usize, &'a Segment)> {
        let device = device.into();
        let all = &self.snapshot.segments;
        let places = self.segments.get_or_init(|| places(all.iter().map(|segment| segment.device)));
        let own = of_device(places, device).iter().map(|place| (*place, &all[*place]));
        let host = self.snapshot.host_segments.iter().enumerate();
        own.chain(host.filter(move |_| device == DeviceId::HOST))
    }

    /// Returns what the settings state about the recording of a device.
    pub fn recorded(&self, device: impl Into<DeviceId>) -> RecordedSettings {
        self.all_recorded().of(device.into())
    }

    /// Returns whether the settings state that all events were recorded, so that a device without events had none.
    pub fn keeps_events(&self) -> bool {
        self.all_recorded().keeps_events
    }

    fn all_recorded(&self) -> &RecordedDevices {
        self.recorded.get_or_init(|| RecordedDevices::new(self.snapshot))
    }

    /// Returns an allocator setting. If a key is there twice, the first counts, as in [`Value::get`].
    pub fn setting(&self, key: &str) -> Option<&'a Value> {
        let Some(Value::Dict(pairs)) = self.snapshot.allocator_settings() else { return None };
        let places = self.settings.get_or_init(|| {
            let texts = pairs.iter().enumerate().rev();
            texts.filter_map(|(at, (key, _))| Some((key.as_text()?.clone(), at))).collect()
        });
        places.get(key).map(|at| &pairs[*at].1)
    }

    /// Returns the indices of the annotations of a device, in the order of the file.
    pub fn annotations(&self, device: impl Into<DeviceId>) -> &[usize] {
        let all = &self.snapshot.external_annotations;
        let device_of = |annotation: &Annotation| annotation.device;
        of_device(self.annotations.get_or_init(|| places(all.iter().map(device_of))), device.into())
    }
}

/// Returns the places of each device in a list of devices.
pub(crate) fn places(devices: impl Iterator<Item = DeviceId>) -> BTreeMap<DeviceId, Vec<usize>> {
    let mut found = Places::new();
    for (place, device) in devices.enumerate() {
        found.entry(device).or_default().push(place);
    }
    found
}

fn of_device(places: &Places, device: DeviceId) -> &[usize] {
    places.get(&device).map_or(&[], |places| places)
}
