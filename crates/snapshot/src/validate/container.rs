//! The outermost keys and the number of entries: rules 1, 2 (its first half) and 7 (its second half).
//!
//! A bare list of segments breaks rule 1 (`E1`): `memory_snapshot()` returns one, and PyTorch's tools accept it,
//! but the viewer does not. Keys that no viewer reads (`host_*`, `external_annotations`) can break rule 1 only as a
//! difference from PyTorch (`P1`). The size of the file is not in the model.

use super::{issue::Issue, values::Walk};
use crate::{
    model::{Field, Shape, Slot, Snapshot, TopLevel, Value, schema},
    words::{Report, Rule},
};

/// Beyond this many entries a browser's list of events becomes unusable (`docs/snapshot-format.md` 3.6).
const MANY_ENTRIES: usize = 500_000;

pub(super) fn check(snapshot: &Snapshot, report: &mut Report) {
    if snapshot.top_level == TopLevel::SegmentList {
        let what = "this is a bare list of segments, which PyTorch's tools accept but the viewer does not; save a \
                    dict with `segments` and `device_traces` instead";
        report.error(Rule::TopLevelKeys, "snapshot", what);
        return;
    }
    check_list(&snapshot.shape, "segments", Field::Segments, report);
    check_list(&snapshot.shape, "device_traces", Field::DeviceTraces, report);
    for (key, slot) in &snapshot.shape.slots {
        check_other_key(key, slot, report);
    }
    check_values(snapshot, report);
    if !super::keys::is_ordered(&snapshot.shape, schema::names(schema::SNAPSHOT)) {
        let order: Vec<_> = schema::names(schema::SNAPSHOT).collect();
        let what = format_args!("the keys are not in PyTorch's order, which is {order:?}");
        report.pytorch(Rule::TopLevelKeys, "snapshot", what);
    }
    check_traces(snapshot, report);
}

fn check_list(shape: &Shape, key: &str, field: Field, report: &mut Report) {
    let what = match shape.slot(key) {
        Some(Slot::Field(found)) if *found == field => return,
        Some(Slot::Value(Value::List(_))) => {
            "one of the elements is not a list; write one list of entries for each device".to_owned()
        }
        Some(Slot::Value(value)) => format!("this is {}; expected a list", value.kind()),
        _ => "this key is missing, so viewers throw the error \"not iterable\"".to_owned(),
    };
    report.error(Rule::TopLevelKeys, key, what);
}

fn check_other_key(key: &str, slot: &Slot, report: &mut Report) {
    let Slot::Value(value) = slot else { return };
    if matches!(key, "host_segments" | "host_traces" | "external_annotations") {
        let what = match value {
            Value::List(_) => "this is a list, but not of dicts with str keys".to_owned(),
            _ => format!("this is {}; expected a list of dicts with str keys", value.kind()),
        };
        report.pytorch(Rule::TopLevelKeys, key, what);
    }
}

/// Checks rules 4 and 6 in the values other than the lists: settings and unknown keys.
fn check_values(snapshot: &Snapshot, report: &mut Report) {
    let (mut walk, mut issues) = (Walk::default(), Vec::new());
    for (key, slot) in &snapshot.shape.slots {
        if let Some(fault) = super::values::key_fault(key) {
            report.error(Rule::Texts, "snapshot", format_args!("{key:?} {fault}"));
        }
        if let Slot::Value(value) = slot {
            walk.check(key, value, &mut issues);
        }
    }
    Issue::report_all(&issues, "snapshot", report);
}

fn check_traces(snapshot: &Snapshot, report: &mut Report) {
    if snapshot.shape.has(Field::DeviceTraces) && snapshot.device_traces.is_empty() {
        let what = "the list is empty, so the viewer finds no device and throws an error; write at least one inner \
                    list, which may be empty";
        report.error(Rule::TraceForEveryDevice, "device_traces", what);
    }
    for (device, trace) in snapshot.device_traces.iter().enumerate() {
        if trace.len() > MANY_ENTRIES {
            let what = "but browsers cannot list more than about 600 000; limit it with max_entries";
            let place = super::place::TracePlace::Device(device);
            let what = format_args!("this trace has {} entries, {what}", trace.len());
            report.warning(Rule::FileSize, place, what);
        }
    }
}
