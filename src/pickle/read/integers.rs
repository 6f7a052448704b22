//! Where the format means an integer and the file has something else: the part of
//! invariant 4 that needs to know which key stands where.

#![forbid(unsafe_code)]

use super::findings::Findings;
use crate::{
    finding::Severity,
    snapshot::{Shape, ShapeId, Slot, Snapshot, Value},
};

const OF_ENTRY: &[&str] = &["addr", "device_free", "size", "stream", "time_us"];
const OF_BLOCK: &[&str] = &["address", "size", "requested_size"];
const OF_SEGMENT: &[&str] =
    &["device", "address", "total_size", "allocated_size", "active_size", "requested_size", "stream"];

/// Tells every record that has a bool, a float or a negative number in such a place.
pub(super) fn check(snapshot: &Snapshot, findings: &mut Findings) {
    let [entry, block, segment] = [OF_ENTRY, OF_BLOCK, OF_SEGMENT].map(|keys| Odd::of(snapshot, keys));
    let traces = snapshot.device_traces.iter().enumerate();
    let traces = traces.map(|(device, trace)| (format!("device_traces[{device}]"), trace));
    for (name, trace) in traces.chain([("host_traces".into(), &snapshot.host_traces)]) {
        for at in entry.among(trace.iter().map(|entry| entry.shape)) {
            entry.tell(trace[at].shape, &format!("{name}[{at}]"), findings);
        }
    }
    for (name, segments) in [("segments", &snapshot.segments), ("host_segments", &snapshot.host_segments)] {
        for at in segment.among(segments.iter().map(|segment| segment.shape)) {
            segment.tell(segments[at].shape, &format!("{name}[{at}]"), findings);
        }
        for (at, segment) in segments.iter().enumerate() {
            for nth in block.among(segment.blocks.iter().map(|block| block.shape)) {
                block.tell(segment.blocks[nth].shape, &format!("{name}[{at}].blocks[{nth}]"), findings);
            }
        }
    }
}

/// What is wrong with a kind of record, by the number of its shape.
///
/// A value of the right type is in the record itself; what is wrong is in
/// the shape, so a few shapes are looked at and not a million records.
struct Odd {
    by_shape: Vec<Option<String>>,
    is_any: bool,
}

impl Odd {
    fn of(snapshot: &Snapshot, keys: &[&str]) -> Odd {
        let by_shape: Vec<_> = snapshot.shapes.iter().map(|(_, shape)| oddity(shape, keys)).collect();
        Odd { is_any: by_shape.iter().any(Option::is_some), by_shape }
    }

    fn among(&self, shapes: impl Iterator<Item = ShapeId>) -> impl Iterator<Item = usize> {
        let shapes = self.is_any.then_some(shapes).into_iter().flatten().enumerate();
        shapes.filter(|(_, shape)| self.by_shape[shape.index()].is_some()).map(|(at, _)| at)
    }

    fn tell(&self, shape: ShapeId, place: &str, findings: &mut Findings) {
        if let Some(what) = &self.by_shape[shape.index()] {
            findings.add(4, Severity::Error, place, what);
        }
    }
}

fn oddity(shape: &Shape, keys: &[&str]) -> Option<String> {
    let what = |(key, slot): &(_, Slot)| match slot {
        Slot::Value(Value::Int(int)) if *int < 0 => {
            Some(format!("`{key}` is {int}, where nothing is negative"))
        }
        Slot::Value(value @ (Value::Bool(_) | Value::Float(_))) => {
            Some(format!("`{key}` is {}, where an int is meant", value.kind()))
        }
        _ => None,
    };
    shape.slots.iter().filter(|(key, _)| keys.contains(&&**key)).find_map(what)
}
