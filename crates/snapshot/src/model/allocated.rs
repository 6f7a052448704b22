//! What was allocated with each stack over a whole recording, whatever its ring lost, stored in the settings:
//! `memreel_allocated` in `allocator_settings`.
//!
//! It is a list with a dictionary for each device: `device`; `frames`, a list of dictionaries like those of events; `stacks`,
//! a list of lists of numbers: blocks, requested bytes, and the places of the frames in that list, innermost first;
//! `peaks` and `least_peaks`, the most bytes that were live at once of each, at most and at least; `at_peak`, the blocks and
//! bytes of each that were live when the device had the most; and `peak_us`, when that was.

use std::sync::Arc;

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
    /// The number of blocks; 0 if all of its blocks are from before the recording.
    pub n_blocks: u64,
    /// The bytes that were requested for them.
    pub bytes: u64,
    /// The most of these bytes that were live at once; `None` if the file does not have it. If several stacks of the
    /// recording are one in the file, the sum, which is an upper bound.
    pub peak_bytes: Option<u64>,
    /// The lower bound of that peak: less than `peak_bytes` if the peaks of several stacks may have come at different
    /// times.
    pub least_peak_bytes: u64,
    /// The number of its blocks that were live when the device had the most, including those from before the recording.
    pub n_at_peak: u64,
    /// The bytes that were requested for these.
    pub bytes_at_peak: u64,
}

impl Allocated {
    /// Adds what was allocated with another stack of the same frames.
    pub fn join(&mut self, other: &Allocated) {
        let add = |sum: &mut u64, more: u64| *sum = sum.saturating_add(more);
        add(&mut self.n_blocks, other.n_blocks);
        add(&mut self.bytes, other.bytes);
        add(&mut self.n_at_peak, other.n_at_peak);
        add(&mut self.bytes_at_peak, other.bytes_at_peak);
        self.peak_bytes = self.peak_bytes.zip(other.peak_bytes).map(|(one, other)| one.saturating_add(other));
        let least = self.least_peak_bytes.max(other.least_peak_bytes).max(self.bytes_at_peak);
        self.least_peak_bytes = least.min(self.peak_bytes.unwrap_or(0));
    }
}

/// What was allocated on a device over a whole recording.
#[derive(Clone, Debug, Default)]
pub struct AllocatedOfRun {
    /// A snapshot with only the stacks.
    pub stacks: Arc<Snapshot>,
    /// What was allocated with each of them.
    pub sums: Vec<Allocated>,
    /// When the device had the most, in microseconds since the Unix epoch; 0 if that was before the first event, and
    /// `None` if the file does not have it.
    pub peak_us: Option<u64>,
}

impl AllocatedOfRun {
    /// Returns the most bytes that were live at once on the device, and the number of their blocks; `None` if the file
    /// does not have it.
    #[must_use]
    pub fn peak(&self) -> Option<(u64, u64)> {
        let sum = |of: fn(&Allocated) -> u64| self.sums.iter().map(of).fold(0, u64::saturating_add);
        self.peak_us.map(|_| (sum(|sum| sum.bytes_at_peak), sum(|sum| sum.n_at_peak)))
    }
}

/// Writes sums of devices, each with the time of its peak, into the settings of the snapshot that has their stacks.
pub fn store(snapshot: &mut Snapshot, devices: &[(DeviceId, Vec<Allocated>, Option<u64>)]) {
    if !devices.is_empty() {
        let of_device = |(device, sums, peak_us): &(DeviceId, Vec<Allocated>, Option<u64>)| {
            value(*device, sums, *peak_us, snapshot)
        };
        let value = Value::List(devices.iter().map(of_device).collect());
        set_setting(snapshot, ALLOCATED, value);
    }
}

/// Removes the sums from the settings.
pub(crate) fn forget(snapshot: &mut Snapshot) {
    remove_setting(snapshot, ALLOCATED);
}

fn value(device: DeviceId, sums: &[Allocated], peak_us: Option<u64>, snapshot: &Snapshot) -> Value {
    let mut frames = FrameWriter::new(snapshot);
    let stacks = sums.iter().map(|sum| frames.stack([sum.n_blocks, sum.bytes], sum.stack)).collect();
    let of_each = |of: fn(&Allocated) -> Value| Value::List(sums.iter().map(of).collect());
    let mut pairs = vec![
        ("device", Value::Int(device.0)),
        ("frames", frames.frames()),
        ("stacks", Value::List(stacks)),
        ("peaks", of_each(|sum| Value::unsigned(sum.peak_bytes.unwrap_or(sum.bytes)))),
        ("least_peaks", of_each(|sum| Value::unsigned(sum.least_peak_bytes))),
    ];
    if let Some(peak_us) = peak_us {
        let at_peak =
            |sum: &Allocated| Value::List([sum.n_at_peak, sum.bytes_at_peak].map(Value::unsigned).into());
        pairs.extend([("at_peak", of_each(at_peak)), ("peak_us", Value::unsigned(peak_us))]);
    }
    Value::dict(pairs)
}

impl Snapshot {
    /// Returns what was allocated with each stack of a device since the recording started, including events that its
    /// ring lost; `None` if the file does not have it.
    #[must_use]
    pub fn allocated(&self, device: impl Into<DeviceId>) -> Option<AllocatedOfRun> {
        let device = device.into();
        let all = self.allocator_settings()?.get(ALLOCATED)?.as_elements()?;
        let of_device = all.iter().find(|of| of.get("device").and_then(Value::as_int) == Some(device.0))?;
        let mut frames = FrameReader::of(of_device.get("frames")?)?;
        let list = |key| of_device.get(key).and_then(Value::as_elements).unwrap_or_default();
        let (peaks, least_peaks, at_peak) = (list("peaks"), list("least_peaks"), list("at_peak"));
        let number = |of: &[Value], at: usize| of.get(at).and_then(Value::as_unsigned);
        let sum = |(at, value): (usize, &Value)| {
            let ([n_blocks, bytes], stack) = frames.stack(value)?;
            let of_peak = at_peak.get(at).and_then(Value::as_elements).unwrap_or_default();
            Some(Allocated {
                stack,
                n_blocks,
                bytes,
                peak_bytes: number(peaks, at),
                least_peak_bytes: number(least_peaks, at).unwrap_or(0),
                n_at_peak: number(of_peak, 0).unwrap_or(0),
                bytes_at_peak: number(of_peak, 1).unwrap_or(0),
            })
        };
        let sums: Vec<Allocated> =
            of_device.get("stacks")?.as_elements()?.iter().enumerate().map(sum).collect::<Option<_>>()?;
        let peak_us = of_device.get("peak_us").and_then(Value::as_unsigned);
        Some(AllocatedOfRun {
            stacks: Arc::new(frames.stacks),
            peak_us: peak_us.filter(|_| at_peak.len() == sums.len()),
            sums,
        })
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
        let sum = |stack, n_blocks, bytes| Allocated {
            stack,
            n_blocks,
            bytes,
            peak_bytes: Some(bytes / 2),
            least_peak_bytes: bytes / 3,
            n_at_peak: n_blocks / 2,
            bytes_at_peak: bytes / 4,
        };
        let sums =
            [sum(names(&["b", "a"]), 2, u64::MAX), sum(names(&["c", "a"]), 3, 4), sum(names(&[]), 5, 6)];
        store(&mut snapshot, &[(DeviceId(1), sums.to_vec(), Some(7)), (DeviceId(0), Vec::new(), None)]);
        let found = snapshot.allocated(DeviceId(1)).unwrap();
        let named = |snapshot: &Snapshot, sums: &[Allocated]| -> Vec<(String, Allocated)> {
            let frames = |stack| snapshot.stacks.frames(stack).map(|frame| &*frame.name).collect::<String>();
            let named = |sum: &Allocated| (frames(sum.stack), Allocated { stack: StackIndex(0), ..*sum });
            sums.iter().map(named).collect()
        };
        assert_eq!(named(&found.stacks, &found.sums), named(&snapshot, &sums));
        assert_eq!((found.peak(), found.peak_us), (Some((u64::MAX / 4 + 2, 4)), Some(7)));
        let empty = snapshot.allocated(DeviceId(0)).unwrap();
        assert_eq!((empty.sums.len(), empty.peak()), (0, None));
        assert!(snapshot.allocated(DeviceId(2)).is_none());
        forget(&mut snapshot);
        assert!(snapshot.allocated(DeviceId(1)).is_none());
    }

    /// 30 of 40 bytes was certainly live at once: at the peak of the device.
    #[test]
    fn several_stacks_have_two_bounds_of_their_peak() {
        let of = |peak, at_peak| Allocated {
            stack: StackIndex(0),
            n_blocks: 1,
            bytes: 100,
            peak_bytes: Some(peak),
            least_peak_bytes: peak,
            n_at_peak: 1,
            bytes_at_peak: at_peak,
        };
        let mut both = of(20, 10);
        both.join(&of(20, 20));
        assert_eq!((both.peak_bytes, both.least_peak_bytes, both.bytes_at_peak), (Some(40), 30, 30));
        let mut exact = of(20, 20);
        exact.join(&of(20, 20));
        assert_eq!((exact.peak_bytes, exact.least_peak_bytes), (Some(40), 40));
    }
}
