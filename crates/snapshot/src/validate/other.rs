//! Annotations and settings: rules 34 and 35.
//!
//! The page's rule 35 mentions "no BigInt". An integer that is too large for a viewer is an error under
//! rule 4 wherever it is, so only differences from PyTorch remain for rule 35. Rule 34 has the severity
//! P, because a ring may have lost the beginning of a scope, and a dump that is taken inside a scope
//! lacks its end.

use super::{
    issue::Issue,
    keys::Table,
    values::{check_exact, text_fault},
};
use crate::{
    history::scope_pairs,
    model::{Annotation, Field, Snapshot, Value, schema},
    words::{Report, Rule},
};

pub(super) fn check(snapshot: &Snapshot, report: &mut Report) {
    annotations(snapshot, report);
    if let Some(settings) = snapshot.shape.value("allocator_settings") {
        check_settings(settings, report);
    }
}

fn annotations(snapshot: &Snapshot, report: &mut Report) {
    let mut table = Table::new(snapshot, schema::ANNOTATION);
    for (index, annotation) in snapshot.external_annotations.iter().enumerate() {
        check_annotation(snapshot, index, annotation, &mut table, report);
    }
    let pairs = scope_pairs(&snapshot.external_annotations);
    let lone_starts = pairs.iter().filter(|pair| pair.end.is_none()).count();
    let lone_ends = pairs.iter().filter(|pair| pair.start.is_none()).count();
    if lone_starts != 0 || lone_ends != 0 {
        let what = format_args!("annotations without a counterpart: {lone_starts} START, {lone_ends} END");
        report.pytorch(Rule::Annotations, "external_annotations", what);
    }
}

fn check_annotation(
    snapshot: &Snapshot,
    index: usize,
    annotation: &Annotation,
    table: &mut Table<'_>,
    report: &mut Report,
) {
    let place = format_args!("external_annotations[{index}]");
    let facts = table.facts(annotation.shape);
    Issue::report_all(&facts.issues, place, report);
    for (field, name) in [(Field::Stage, "stage"), (Field::Name, "name"), (Field::Device, "device")] {
        if facts.lacks(field) {
            report.pytorch(Rule::Annotations, place, format_args!("`{name}` is missing; PyTorch writes it"));
        }
    }
    if facts.has(Field::Stage) && !matches!(&*annotation.stage, "START" | "END") {
        let what = format_args!("`stage` is {:?}; expected \"START\" or \"END\"", &*annotation.stage);
        report.pytorch(Rule::Annotations, place, what);
    }
    let n_traces = snapshot.device_traces.len();
    let is_known = annotation.device.index().is_some_and(|device| device < n_traces);
    if facts.has(Field::Device) && n_traces > 0 && !is_known {
        let lists = if n_traces == 1 { "list" } else { "lists" };
        let device = annotation.device;
        let what = format_args!("`device` is {device}, but `device_traces` has only {n_traces} {lists}");
        report.pytorch(Rule::Annotations, place, what);
    }
    let numbers =
        [(Field::Device, "device", annotation.device.0), (Field::TimeUs, "time_us", annotation.time_us)];
    for (field, name, number) in numbers {
        if facts.has(field) {
            check_exact(name, number, place, report);
        }
    }
    for text in [&annotation.stage, &annotation.name] {
        if let Some(fault) = text_fault(text) {
            report.error(Rule::Texts, place, format_args!("{text:?} {fault}"));
        }
    }
}

fn check_settings(settings: &Value, report: &mut Report) {
    let Value::Dict(pairs) = settings else {
        let what = format_args!("this is {}; expected a dict", settings.kind());
        report.pytorch(Rule::Settings, "allocator_settings", what);
        return;
    };
    for (key, value) in pairs.iter() {
        match value {
            Value::Float(float) if !float.is_finite() => {
                let what = format_args!("{key:?} is {float}, which JSON cannot represent");
                report.pytorch(Rule::Settings, "allocator_settings", what);
            }
            Value::Bytes(_) => report.pytorch(
                Rule::Settings,
                "allocator_settings",
                format_args!("{key:?} is bytes, which JSON cannot represent"),
            ),
            _ => {}
        }
    }
    let is_divisions =
        |(key, _): &(Value, Value)| key.as_text().is_some_and(|key| &**key == "roundup_power2_divisions");
    if pairs.iter().position(is_divisions).is_some_and(|at| at + 1 != pairs.len()) {
        let what = "`roundup_power2_divisions` should be the last key, as in PyTorch's own snapshots";
        report.pytorch(Rule::Settings, "allocator_settings", what);
    }
}
