//! What the settings of a snapshot state about its recording: entries that were lost or added, allocations without
//! events, and stacks that were not kept.
//!
//! The keys are in `allocator_settings` and hold for every device. Where devices differ, `memreel_devices`
//! has a dictionary for each of them, by its number as a text, and the keys in it replace the others.

use super::{Slot, Snapshot, Text, TopLevel, Value};
use crate::{
    words::sample_weight,
    words::{DeviceId, SeededMap},
};

const SETTINGS: &str = "allocator_settings";
const DEVICES: &str = "memreel_devices";
const OVERFLOWED: &str = "trace_alloc_overflowed";
const LOST: &str = "trace_alloc_lost_entries";
const MAX_ENTRIES: &str = "trace_alloc_max_entries";
const MIN_SIZE: &str = "memreel_min_size";
const SAMPLE: &str = "memreel_sample_bytes";
const FIXED: &str = "memreel_fixed_events";
const CUT: &str = "memreel_cut_events";
const REFUSED: &str = "memreel_stacks_refused";
const WEIGHT: &str = "memreel_weight_bytes";
const FREES: &str = "memreel_frees_as_allocated";
/// The key for what devices reported about their memory.
pub(super) const USAGE: &str = "memreel_usage";
/// The key for what the kernel reported about the resident memory of processes.
pub(super) const RESIDENT: &str = "memreel_resident";
/// The key for what was allocated with each stack.
pub(super) const ALLOCATED: &str = "memreel_allocated";
/// The key for what a program mapped itself.
pub(super) const MAPPED: &str = "memreel_mapped";
/// Rule 35: this key stays the last.
const LAST: &str = "roundup_power2_divisions";

/// The facts about the recording of one device.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RecordedSettings {
    /// Whether entries were lost.
    pub has_lost: bool,
    /// How many; 0 if the number is not known.
    pub n_lost: u64,
    /// Allocations of fewer requested bytes have no events.
    pub min_size_bytes: u64,
    /// Mean sampling interval in bytes; 0 if every allocation was recorded.
    pub sample_bytes: u64,
    /// How many events were added or dropped to make the trace consistent.
    pub n_fixed: u64,
    /// How many events are outside the window of the history that the file has.
    pub n_cut: u64,
    /// How many captures of a stack found the recorder's table full, on all of its devices.
    pub n_stacks_refused: u64,
    /// Mean sampling interval in bytes if every block of the device is sampled, so that it stands for others of its
    /// size; 0 if there are blocks that were not sampled.
    pub weight_bytes: u64,
    /// Whether frees have the stacks of their allocations, as with PyTorch's context "alloc"; false if not known.
    pub frees_as_allocated: bool,
}

impl RecordedSettings {
    /// Returns whether a key of the settings has one of these facts, or what devices and the kernel reported.
    pub fn is_key(key: &str) -> bool {
        [DEVICES, USAGE, RESIDENT, ALLOCATED, MAPPED].contains(&key) || KEYS.contains(&key)
    }

    /// The dictionary of [`DEVICES`] for devices that differ; `None` if they do not.
    fn by_device(devices: &[(DeviceId, RecordedSettings)]) -> Option<Value> {
        let is_same = devices.windows(2).all(|pair| pair[0].1 == pair[1].1);
        let dict = |(device, recorded): &(DeviceId, RecordedSettings)| {
            let is_left_out = |(key, value): &(&str, Value)| {
                [WEIGHT, FREES].contains(key) && [Value::Bool(false), Value::Int(0)].contains(value)
            };
            let pairs = recorded.pairs().into_iter().filter(|pair| !is_left_out(pair));
            (Value::text(&device.to_string()), Value::dict(pairs))
        };
        (!is_same).then(|| Value::Dict(devices.iter().map(dict).collect()))
    }

    /// Writes the facts about every device into the settings. Keys that would add nothing are not added.
    ///
    /// If devices differ, the keys for all devices get the sum of what was lost and the largest of each size,
    /// for readers that do not know `memreel_devices`.
    pub fn store(snapshot: &mut Snapshot, devices: &[(DeviceId, RecordedSettings)]) {
        let before = RecordedDevices::new(snapshot);
        let reads_the_same =
            |(device, recorded): &(DeviceId, RecordedSettings)| before.of(*device) == *recorded;
        if snapshot.top_level == TopLevel::SegmentList || devices.iter().all(reads_the_same) {
            return;
        }
        let by_device = RecordedSettings::by_device(devices);
        let mut all = devices.iter().map(|(_, recorded)| *recorded);
        let all = if by_device.is_some() { all.reduce(RecordedSettings::and) } else { all.next() };
        let pairs = all.unwrap_or_default().pairs();
        let mut settings = match snapshot.shape.slot(SETTINGS) {
            Some(Slot::Value(Value::Dict(pairs))) => pairs.to_vec(),
            Some(_) => return,
            None => Vec::new(),
        };
        settings.retain(|pair| !has_key(pair, DEVICES));
        for (key, value) in pairs {
            // PyTorch does not record losses, and its files do not start to deny them.
            let is_new = settings.iter().all(|pair| !has_key(pair, key));
            if !is_new || ![Value::Bool(false), Value::Int(0)].contains(&value) {
                set(&mut settings, key, value);
            }
        }
        by_device.into_iter().for_each(|by_device| set(&mut settings, DEVICES, by_device));
        let slot = Slot::Value(Value::Dict(settings.into()));
        let slots = &mut snapshot.shape.slots;
        match slots.iter_mut().find(|(key, _)| &**key == SETTINGS) {
            Some((_, old)) => *old = slot,
            None => {
                // PyTorch writes the settings after the traces.
                let traces = slots.iter().position(|(key, _)| &**key == "device_traces");
                slots.insert(traces.map_or(slots.len(), |traces| traces + 1), (SETTINGS.into(), slot));
            }
        }
    }

    /// The facts about two devices together.
    fn and(self, other: RecordedSettings) -> RecordedSettings {
        RecordedSettings {
            has_lost: self.has_lost || other.has_lost,
            n_lost: self.n_lost.saturating_add(other.n_lost),
            min_size_bytes: self.min_size_bytes.max(other.min_size_bytes),
            sample_bytes: self.sample_bytes.max(other.sample_bytes),
            n_fixed: self.n_fixed.saturating_add(other.n_fixed),
            n_cut: self.n_cut.saturating_add(other.n_cut),
            // The devices of one recorder share its table.
            n_stacks_refused: self.n_stacks_refused.max(other.n_stacks_refused),
            // Blocks of another device do not stand for others; the device's own dictionary has it.
            weight_bytes: 0,
            frees_as_allocated: self.frees_as_allocated && other.frees_as_allocated,
        }
    }

    /// The keys with their values, in the order of [`KEYS`].
    fn pairs(self) -> [(&'static str, Value); 9] {
        [
            (OVERFLOWED, Value::Bool(self.has_lost)),
            (LOST, Value::unsigned(self.n_lost)),
            (MIN_SIZE, Value::unsigned(self.min_size_bytes)),
            (SAMPLE, Value::unsigned(self.sample_bytes)),
            (FIXED, Value::unsigned(self.n_fixed)),
            (CUT, Value::unsigned(self.n_cut)),
            (REFUSED, Value::unsigned(self.n_stacks_refused)),
            (WEIGHT, Value::unsigned(self.weight_bytes)),
            (FREES, Value::Bool(self.frees_as_allocated)),
        ]
    }

    /// Returns the bytes that a block of `bytes` requested bytes stands for: an unbiased estimate of all
    /// allocations.
    #[allow(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "an estimate; a conversion to an integer saturates"
    )]
    pub fn represented_bytes(self, bytes: u64) -> u64 {
        match self.weight_bytes {
            0 => bytes,
            every_bytes => (sample_weight(bytes, every_bytes) * bytes as f64).round() as u64,
        }
    }
}

/// The settings that have the facts about each device.
#[derive(Debug)]
pub(crate) struct RecordedDevices {
    /// What the keys have for all devices, in the order of [`KEYS`].
    all: [Option<Value>; 9],
    /// The dictionary of each device that has one, by its number as a text.
    own: SeededMap<Text, Value>,
    /// Whether all events were recorded, so that a device without events had none. A recorder that is off, or keeps
    /// only the latest event, has room for one.
    pub keeps_events: bool,
}

const KEYS: [&str; 9] = [OVERFLOWED, LOST, MIN_SIZE, SAMPLE, FIXED, CUT, REFUSED, WEIGHT, FREES];

impl RecordedDevices {
    pub(crate) fn new(snapshot: &Snapshot) -> RecordedDevices {
        let settings = snapshot.allocator_settings();
        let all = KEYS.map(|key| settings.and_then(|settings| settings.get(key)).cloned());
        let mut own = SeededMap::default();
        if let Some(Value::Dict(pairs)) = settings.and_then(|settings| settings.get(DEVICES)) {
            for (key, value) in pairs.iter() {
                // Of a key that is there twice, the first counts, as in `Value::get`.
                if let Some(key) = key.as_text() {
                    own.entry(key.clone()).or_insert_with(|| value.clone());
                }
            }
        }
        let keeps_events = number(settings.and_then(|settings| settings.get(MAX_ENTRIES))) > 1;
        RecordedDevices { all, own, keeps_events }
    }

    /// Returns the facts about a device. What the settings do not mention is not lost and not left out.
    pub(crate) fn of(&self, device: DeviceId) -> RecordedSettings {
        let own = if self.own.is_empty() { None } else { self.own.get(&*device.to_string()) };
        let setting = |at: usize| own.and_then(|own| own.get(KEYS[at])).or(self.all[at].as_ref());
        let n_lost = number(setting(1));
        RecordedSettings {
            has_lost: n_lost > 0 || setting(0) == Some(&Value::Bool(true)),
            n_lost,
            min_size_bytes: number(setting(2)),
            sample_bytes: number(setting(3)),
            n_fixed: number(setting(4)),
            n_cut: number(setting(5)),
            n_stacks_refused: number(setting(6)),
            weight_bytes: number(setting(7)),
            frees_as_allocated: setting(8) == Some(&Value::Bool(true)),
        }
    }
}

fn number(value: Option<&Value>) -> u64 {
    value.and_then(Value::as_unsigned).unwrap_or(0)
}

/// Sets a key of a snapshot's settings, if it has any.
pub(super) fn set_setting(snapshot: &mut Snapshot, key: &str, value: Value) {
    let slot = snapshot.shape.slots.iter_mut().find(|(key, _)| &**key == SETTINGS);
    if let Some((_, Slot::Value(Value::Dict(pairs)))) = slot {
        let mut settings = pairs.to_vec();
        set(&mut settings, key, value);
        *pairs = settings.into();
    }
}

/// Removes a key of a snapshot's settings.
pub(super) fn remove_setting(snapshot: &mut Snapshot, key: &str) {
    let slot = snapshot.shape.slots.iter_mut().find(|(key, _)| &**key == SETTINGS);
    if let Some((_, Slot::Value(Value::Dict(pairs)))) = slot
        && pairs.iter().any(|pair| has_key(pair, key))
    {
        *pairs = pairs.iter().filter(|pair| !has_key(pair, key)).cloned().collect();
    }
}

/// Sets a key of the settings; a new one comes before the key that stays the last.
fn set(settings: &mut Vec<(Value, Value)>, key: &str, value: Value) {
    match settings.iter().position(|pair| has_key(pair, key)) {
        Some(at) => settings[at].1 = value,
        None => {
            let at = settings.iter().position(|pair| has_key(pair, LAST)).unwrap_or(settings.len());
            settings.insert(at, (Value::text(key), value));
        }
    }
}

fn has_key(pair: &(Value, Value), key: &str) -> bool {
    pair.0.as_text().is_some_and(|text| &**text == key)
}
