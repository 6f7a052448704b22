//! The origin of a merged snapshot's devices, and the settings that it cannot keep.

use crate::{
    model::{RecordedSettings, Slot, Snapshot, Text, Value},
    words::DeviceId,
};

/// A device of a merged snapshot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct MergedDevice {
    /// Its number in the merged snapshot.
    pub device: DeviceId,
    /// The index of the part that it comes from.
    pub part: usize,
    /// Its number in that part.
    pub number_in_part: DeviceId,
    /// The number of its events. Without any it has segments alone: no history was recorded.
    pub n_entries: usize,
}

/// A setting with different values in parts of a merged snapshot.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct SettingDifference {
    /// The key in `allocator_settings`, or of the top level.
    pub key: Text,
    /// The value in each part; `None` in a part without the key. The merged snapshot has the first that
    /// is there.
    pub values: Vec<Option<Value>>,
}

/// Returns the settings and the unknown top-level keys in which snapshots differ.
pub(super) fn differing_settings<'s>(parts: impl Iterator<Item = &'s Snapshot>) -> Vec<SettingDifference> {
    let settings: Vec<Vec<(&Text, &Value)>> = parts.map(settings).collect();
    let mut keys: Vec<&Text> = Vec::new();
    for (key, _) in settings.iter().flatten() {
        if !keys.contains(key) {
            keys.push(key);
        }
    }
    let difference = |key: &Text| {
        let value = |part: &Vec<(&Text, &Value)>| {
            part.iter().find(|(k, _)| *k == key).map(|(_, value)| (*value).clone())
        };
        let values: Vec<Option<Value>> = settings.iter().map(value).collect();
        let differ = values.windows(2).any(|pair| pair[0] != pair[1]);
        differ.then(|| SettingDifference { key: key.clone(), values })
    };
    keys.into_iter().filter_map(difference).collect()
}

/// The settings and the unknown keys of the top level, with their values.
fn settings(head: &Snapshot) -> Vec<(&Text, &Value)> {
    let mut all = Vec::new();
    for (key, slot) in &head.shape.slots {
        match slot {
            Slot::Value(Value::Dict(pairs)) if &**key == "allocator_settings" => {
                all.extend(pairs.iter().filter_map(|(key, value)| Some((key.as_text()?, value))));
            }
            Slot::Value(value) => all.push((key, value)),
            Slot::Field(_) => {}
        }
    }
    all.retain(|(key, _)| !RecordedSettings::is_key(key));
    all
}
