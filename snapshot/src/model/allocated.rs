//! What was allocated with each stack over a whole recording, whatever its ring lost, as a value of the settings:
//! `memreel_allocated` of `allocator_settings`.
//!
//! It is a list with a dictionary for each device: `device`; `frames`, a list of dictionaries like those of events; `stacks`,
//! a list of lists of numbers: blocks, requested bytes, and the places of the frames in that list, innermost first; and
//! `peaks`, the most bytes that were live at once of each.

use super::{
    Snapshot, StackIndex, Value,
    recorded::{ALLOCATED, remove_setting, set_setting},
    stack_list::{FrameReader, FrameWriter},
};
use crate::words::DeviceId;

/// What was allocated with one stack.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Allocated {
    /// The stack of the allocations.
    pub stack: StackIndex,
    /// The number of blocks.
    pub n_blocks: u64,
    /// The bytes that were requested for them.
    pub bytes: u64,
    /// The most of these bytes that were live at once; `None` if the file does not say. Of several stacks that are one, each
    /// one's own.
    pub peak_bytes: Option<u64>,
}

/// Writes sums of devices into the settings of the snapshot that has their stacks.
pub fn store(snapshot: &mut Snapshot, devices: &[(DeviceId, Vec<Allocated>)]) {
    if !devices.is_empty() {
        let of_device = |(device, sums): &(DeviceId, Vec<Allocated>)| value(*device, sums, snapshot);
        let value = Value::List(devices.iter().map(of_device).collect());
        set_setting(snapshot, ALLOCATED, value);
    }
}

/// Takes the sums out of the settings.
pub(crate) fn forget(snapshot: &mut Snapshot) {
    remove_setting(snapshot, ALLOCATED);
}

fn value(device: DeviceId, sums: &[Allocated], snapshot: &Snapshot) -> Value {
    let mut frames = FrameWriter::new(snapshot);
    let stacks = sums.iter().map(|sum| frames.stack([sum.n_blocks, sum.bytes], sum.stack)).collect();
    let peak = |sum: &Allocated| Value::unsigned(sum.peak_bytes.unwrap_or(sum.bytes));
    Value::dict([
        ("device", Value::Int(device.0)),
        ("frames", frames.frames()),
        ("stacks", Value::List(stacks)),
        ("peaks", Value::List(sums.iter().map(peak).collect())),
    ])
}

impl Snapshot {
    /// Returns what was allocated with each stack of a device since the recording began, also by events that its ring lost, and
    /// a snapshot that has these stacks and nothing else; `None` if the file does not say.
    #[must_use]
    pub fn allocated(&self, device: DeviceId) -> Option<(Snapshot, Vec<Allocated>)> {
        let all = self.allocator_settings()?.get(ALLOCATED)?.as_elements()?;
        let of_device = all.iter().find(|of| of.get("device").and_then(Value::as_int) == Some(device.0))?;
        let mut frames = FrameReader::of(of_device.get("frames")?)?;
        let peaks = of_device.get("peaks").and_then(Value::as_elements).unwrap_or_default();
        let mut peaks = peaks.iter().map(Value::as_unsigned);
        let sum = |value: &Value| {
            let ([n_blocks, bytes], stack) = frames.stack(value)?;
            Some(Allocated { stack, n_blocks, bytes, peak_bytes: peaks.next().flatten() })
        };
        let sums = of_device.get("stacks")?.as_elements()?.iter().map(sum).collect::<Option<_>>()?;
        Some((frames.stacks, sums))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Field, Frame, FrameIndex, Shape, Slot};

    #[test]
    fn sums_come_back_with_their_frames() {
        let text = r#"{"segments": [], "device_traces": [[]], "allocator_settings": {"roundup_power2_divisions": {}}}"#;
        let mut snapshot: Snapshot = serde_json::from_str(text).unwrap();
        let mut names = |names: &[&str]| {
            let frames: Vec<FrameIndex> = names
                .iter()
                .map(|name| {
                    let mut shape = Shape::from_fields(&[("name", Field::Name)]);
                    shape.slots.push(("library".into(), Slot::Value(Value::text("libc.so.6"))));
                    let shape = snapshot.shapes.intern(shape);
                    snapshot.stacks.intern_frame(Frame { name: (*name).into(), shape, ..Frame::default() })
                })
                .collect();
            snapshot.stacks.intern_stack(&frames)
        };
        let sum = |stack, n_blocks, bytes| Allocated { stack, n_blocks, bytes, peak_bytes: Some(bytes / 2) };
        let of_device = |device, sums: &[Allocated]| (DeviceId(device), sums.to_vec());
        let sums =
            [sum(names(&["b", "a"]), 2, u64::MAX), sum(names(&["c", "a"]), 3, 4), sum(names(&[]), 5, 6)];
        store(&mut snapshot, &[of_device(1, &sums), of_device(0, &[])]);
        let (stacks, found) = snapshot.allocated(DeviceId(1)).unwrap();
        let named = |snapshot: &Snapshot, sums: &[Allocated]| -> Vec<(String, u64, u64, Option<u64>)> {
            let frames = |stack| snapshot.stacks.frames(stack).map(|frame| &*frame.name).collect::<String>();
            sums.iter().map(|sum| (frames(sum.stack), sum.n_blocks, sum.bytes, sum.peak_bytes)).collect()
        };
        assert_eq!(named(&stacks, &found), named(&snapshot, &sums));
        assert_eq!(snapshot.allocated(DeviceId(0)).unwrap().1, []);
        assert!(snapshot.allocated(DeviceId(2)).is_none());
        forget(&mut snapshot);
        assert!(snapshot.allocated(DeviceId(1)).is_none());
    }
}
