//! Adds the category `"unknown"`, without which the viewer throws if any entry has a category.
//!
//! See `docs/snapshot-format.md` 3.5.

use super::change::Changes;
use crate::{
    model::{Field, Shape, Slot, Snapshot, TraceEntry, Value},
    words::Action,
};

const CATEGORY: &str = "category";
const UNKNOWN: &str = "unknown";

/// Gives entries without a category the category `"unknown"`, as which the viewer draws them anyway. If
/// every entry has a category, adds a marker of that category, which the viewer does not draw.
pub(super) fn fix(snapshot: &mut Snapshot, changes: &mut Changes) {
    let entries = || snapshot.device_traces.iter().flatten();
    let categories: Vec<Option<bool>> = snapshot
        .shapes
        .iter()
        .map(|(_, shape)| shape.text(CATEGORY).map(|category| category == UNKNOWN))
        .collect();
    let has = |is_unknown: bool| entries().any(|entry| categories[entry.shape.index()] == Some(is_unknown));
    if !categories.contains(&Some(false)) || !has(false) || has(true) {
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
    changes.add(
        "",
        "gave entries without a category the category \"unknown\", which older viewers need",
        count,
    );
    if count == 0 {
        mark(snapshot);
        changes.add("", "added a marker of the category \"unknown\", which older viewers need", 1);
    }
}

fn mark(snapshot: &mut Snapshot) {
    let mut shape = Shape::from_fields(&[
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
