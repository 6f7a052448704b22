//! The address ranges that a program mapped itself, with their stacks, stored in the settings: `memreel_mapped` in
//! `allocator_settings`.
//!
//! It is a dictionary: `device`, the heap of the process; `frames`, a list of dictionaries like those of events; and `ranges`, a
//! list of lists of numbers: the first address and the one after the last, the microseconds from and until which it was
//! there (0: it is there still), and the places of the frames in that list, innermost first.

use std::ops::Range;

use super::{
    Snapshot, StackIndex, Value,
    recorded::{MAPPED, remove_setting, set_setting},
    stack_list::{FrameReader, FrameWriter},
};
use crate::words::DeviceId;

/// A range that the program mapped with one stack.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MappedRange {
    /// The stack of the call.
    pub stack: StackIndex,
    /// The addresses.
    pub range: Range<u64>,
    /// From when until when it existed, in microseconds since the Unix epoch; the end is [`u64::MAX`] if it still
    /// exists.
    pub times_us: Range<u64>,
}

/// Writes the ranges of a heap into the settings of the snapshot that has their stacks.
pub fn store(snapshot: &mut Snapshot, device: DeviceId, ranges: &[MappedRange]) {
    if !ranges.is_empty() {
        let mut frames = FrameWriter::new(snapshot);
        let end = |of: &MappedRange| if of.times_us.end == u64::MAX { 0 } else { of.times_us.end };
        let figures = |of: &MappedRange| [of.range.start, of.range.end, of.times_us.start, end(of)];
        let list = ranges.iter().map(|of| frames.stack(figures(of), of.stack)).collect();
        let value = Value::dict([
            ("device", Value::Int(device.0)),
            ("frames", frames.frames()),
            ("ranges", Value::List(list)),
        ]);
        set_setting(snapshot, MAPPED, value);
    }
}

/// Removes the ranges from the settings.
pub(crate) fn forget(snapshot: &mut Snapshot) {
    remove_setting(snapshot, MAPPED);
}

impl Snapshot {
    /// Returns the ranges that the program with this heap mapped itself, by address, and a snapshot with only their
    /// stacks; `None` if the file does not have them.
    #[must_use]
    pub fn mapped(&self, heap: impl Into<DeviceId>) -> Option<(Snapshot, Vec<MappedRange>)> {
        let all = self.allocator_settings()?.get(MAPPED)?;
        if all.get("device").and_then(Value::as_int) != Some(heap.into().0) {
            return None;
        }
        let mut frames = FrameReader::of(all.get("frames")?)?;
        let range = |value: &Value| {
            let ([start, end, from_us, until_us], stack) = frames.stack(value)?;
            let until_us = if until_us == 0 { u64::MAX } else { until_us };
            Some(MappedRange { stack, range: start..end, times_us: from_us..until_us })
        };
        let mut ranges: Vec<MappedRange> =
            all.get("ranges")?.as_elements()?.iter().map(range).collect::<Option<_>>()?;
        ranges.sort_by_key(|of| of.range.start);
        Some((frames.stacks, ranges))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Field, Frame, Shape};

    #[test]
    fn ranges_come_back_with_their_frames() {
        let text = r#"{"segments": [], "device_traces": [[]], "allocator_settings": {"roundup_power2_divisions": {}}}"#;
        let mut snapshot: Snapshot = serde_json::from_str(text).unwrap();
        let shape = snapshot.shapes.intern(Shape::from_fields(&[("name", Field::Name)]));
        let frame = snapshot.stacks.intern_frame(Frame { name: "arena".into(), shape, ..Frame::default() });
        let stack = snapshot.stacks.intern_stack(&[frame]);
        let range = |range, times_us| MappedRange { stack, range, times_us };
        let ranges = [range(5..9, 3..u64::MAX), range(1..5, 2..4)];
        assert!(snapshot.mapped(DeviceId(0)).is_none());
        store(&mut snapshot, DeviceId(0), &ranges);
        let (stacks, found) = snapshot.mapped(DeviceId(0)).unwrap();
        let figures = |of: &MappedRange| (of.range.clone(), of.times_us.clone());
        assert_eq!(found.iter().map(figures).collect::<Vec<_>>(), [(1..5, 2..4), (5..9, 3..u64::MAX)]);
        assert!(found.iter().all(|of| stacks.stacks.frames(of.stack).all(|frame| &*frame.name == "arena")));
        assert!(snapshot.mapped(DeviceId(1)).is_none());
        forget(&mut snapshot);
        assert!(snapshot.mapped(DeviceId(0)).is_none());
    }
}
