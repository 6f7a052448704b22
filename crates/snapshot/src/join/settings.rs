//! The settings of a merged snapshot: PyTorch's under its names, memreel's own, and the time of the dump.

use crate::{
    model::{Field, RecordedDevices, RecordedSettings, Slot, Snapshot, TraceEntry, Value},
    words::DeviceId,
};

const SETTINGS: &str = "allocator_settings";
const DUMPED: &str = "memreel_torch_time_us";
/// Rule 35: this key stays the last.
const LAST: &str = "roundup_power2_divisions";

/// The time of PyTorch's dump in microseconds, or of its last event.
pub(super) fn dumped_us(torch: &Snapshot) -> Option<i64> {
    let settings = torch.allocator_settings();
    let said = settings.and_then(|settings| settings.get(DUMPED)).and_then(Value::as_int);
    let last = |trace: &Vec<TraceEntry>| trace.iter().map(|entry| entry.time_us).max();
    said.or_else(|| torch.device_traces.iter().filter_map(last).max())
}

/// Adds PyTorch's settings and unknown keys to the driver's.
pub(super) fn merge(merged: &mut Snapshot, torch: &Snapshot, dumped_us: Option<i64>) {
    let recorded = recorded(merged, torch);
    for (key, slot) in &torch.shape.slots {
        if merged.shape.slot(key).is_none() && !matches!(slot, Slot::Field(Field::ExternalAnnotations)) {
            merged.shape.set(key.clone(), slot.clone());
        }
    }
    let pairs = |snapshot: &Snapshot| match snapshot.allocator_settings() {
        Some(Value::Dict(pairs)) => pairs.to_vec(),
        _ => Vec::new(),
    };
    let is_own = |key: &Value| {
        key.as_text().is_some_and(|key| {
            key.starts_with("memreel_") || key.starts_with("trace_alloc_") || RecordedSettings::is_key(key)
        })
    };
    let mut all: Vec<(Value, Value)> = pairs(torch).into_iter().filter(|(key, _)| !is_own(key)).collect();
    for (key, value) in pairs(merged) {
        if all.iter().all(|(other, _)| *other != key) {
            all.push((key, value));
        }
    }
    all.retain(|(key, _)| *key != Value::text(DUMPED));
    if let Some(dumped_us) = dumped_us {
        all.push((Value::text(DUMPED), Value::Int(dumped_us)));
    }
    if let Some(at) = all.iter().position(|(key, _)| *key == Value::text(LAST)) {
        let last = all.remove(at);
        all.push(last);
    }
    merged.shape.set(SETTINGS.into(), Slot::Value(Value::Dict(all.into())));
    RecordedSettings::store(merged, &recorded);
}

/// Merges what both state about the recording of each device.
fn recorded(driver: &Snapshot, torch: &Snapshot) -> Vec<(DeviceId, RecordedSettings)> {
    let [ours, theirs] = [driver, torch].map(RecordedDevices::new);
    let n_devices = driver.device_traces.len().max(torch.device_traces.len());
    let both = |device: DeviceId| {
        let (own, other) = (ours.of(device), theirs.of(device));
        let n_fixed = own.n_fixed.saturating_add(other.n_fixed);
        (device, RecordedSettings { has_lost: own.has_lost || other.has_lost, n_fixed, ..own })
    };
    DeviceId::first(n_devices).map(both).collect()
}
