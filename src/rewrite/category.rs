//! Categories: as soon as one entry has one, the viewer looks for `"unknown"` and throws without it (snapshot-format.md 3.5).

use super::change::Changes;
use crate::{
    event::Action,
    snapshot::{Field, Shape, ShapeId, Slot, Snapshot, TraceEntry, Value},
};

const CATEGORY: &str = "category";
const UNKNOWN: &str = "unknown";

/// Names what has no category `"unknown"`, which is how the viewer draws it
/// anyway; where every entry has one, a marker that draws nothing takes the name.
pub(super) fn fix(snapshot: &mut Snapshot, changes: &mut Changes) {
    let traced: Vec<ShapeId> = snapshot.device_traces.iter().flatten().map(|entry| entry.shape).collect();
    let category = |shape: ShapeId| snapshot.shapes.get(shape).text(CATEGORY);
    let is_unknown = |shape: &ShapeId| category(*shape) == Some(UNKNOWN);
    if !traced.iter().any(|shape| category(*shape).is_some()) || traced.iter().any(is_unknown) {
        return;
    }
    let mut named = vec![None; snapshot.shapes.len()];
    let mut count = 0;
    for entry in snapshot.device_traces.iter_mut().flatten() {
        let slot = &mut named[entry.shape.index()];
        let shape = match *slot {
            Some(shape) => shape,
            None => {
                let mut shape = snapshot.shapes.get(entry.shape).clone();
                let is_without = shape.slot(CATEGORY).is_none();
                if is_without {
                    shape.set(CATEGORY.into(), Slot::Value(Value::text(UNKNOWN)));
                }
                let shape = (snapshot.shapes.intern(shape), is_without);
                *slot = Some(shape);
                shape
            }
        };
        entry.shape = shape.0;
        count += usize::from(shape.1);
    }
    changes.add("", "named the entries without category \"unknown\", which the viewer looks for", count);
    if count == 0 {
        mark(snapshot);
        changes.add("", "added a marker of category \"unknown\", which the viewer looks for", 1);
    }
}

fn mark(snapshot: &mut Snapshot) {
    let mut shape = Shape::of(&[
        ("action", Field::Action),
        ("addr", Field::Addr),
        ("size", Field::Size),
        ("stream", Field::Stream),
        ("time_us", Field::TimeUs),
    ]);
    shape.set(CATEGORY.into(), Slot::Value(Value::text(UNKNOWN)));
    let shape = snapshot.shapes.intern(shape);
    let Some(trace) = snapshot.device_traces.iter_mut().find(|trace| !trace.is_empty()) else { return };
    let time_us = trace[0].time_us;
    trace.insert(0, TraceEntry { action: Some(Action::Snapshot), shape, time_us, ..TraceEntry::default() });
}
