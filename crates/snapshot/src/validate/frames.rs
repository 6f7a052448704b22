//! Frames: rule 16, and rule 6 for their texts.
//!
//! A stack that many records share is reported once, at the first of them.

use std::fmt::Display;

use super::{
    issue::Issue,
    keys::{self, Table},
    values::{is_exact, text_fault},
};
use crate::{
    model::{Field, Frame, Snapshot, StackIndex, schema},
    words::{Report, Rule, SeededMap, SeededSet, Severity},
};

/// The frames that break a rule, usually none.
#[derive(Debug)]
pub(super) struct Frames<'a> {
    snapshot: &'a Snapshot,
    faults: SeededMap<usize, Vec<Issue>>,
    /// The stacks that were reported.
    reported: SeededSet<StackIndex>,
}

impl<'a> Frames<'a> {
    pub(super) fn new(snapshot: &'a Snapshot) -> Frames<'a> {
        let mut table = Table::new(snapshot, schema::FRAME);
        let mut faults = SeededMap::default();
        for (index, frame) in snapshot.stacks.all_frames().enumerate() {
            let issues = frame_issues(snapshot, frame, &mut table);
            if !issues.is_empty() {
                faults.insert(index, issues);
            }
        }
        Frames { snapshot, faults, reported: SeededSet::default() }
    }

    /// Checks the stack of a record. `place` is the dictionary whose `frames` it is.
    pub(super) fn check(&mut self, stack: Option<StackIndex>, place: impl Display, report: &mut Report) {
        let Some(stack) = stack else { return };
        if stack.index() >= self.snapshot.stacks.len() {
            report.error(Rule::Frames, place, "the stack of this record is not in this snapshot");
        } else if !self.faults.is_empty() && self.reported.insert(stack) {
            self.report(stack, place, report);
        }
    }

    fn report(&self, stack: StackIndex, place: impl Display, report: &mut Report) {
        for (n, frame) in self.snapshot.stacks.members(stack).iter().enumerate() {
            let issues = self.faults.get(&(frame.0 as usize)).into_iter().flatten();
            Issue::report_all(issues, format_args!("{place}.frames[{n}]"), report);
        }
    }
}

fn frame_issues(snapshot: &Snapshot, frame: &Frame, table: &mut Table<'_>) -> Vec<Issue> {
    let facts = table.facts(frame.shape);
    let copy = |issue: &Issue| Issue::new(issue.rule, issue.severity, issue.what.clone());
    let mut issues: Vec<Issue> = facts.issues.iter().map(copy).collect();
    for (field, name) in [(Field::Name, "name"), (Field::Filename, "filename"), (Field::Line, "line")] {
        if facts.lacks(field) {
            let what = format!("`{name}` is missing, so viewers throw an error when they show the stack");
            issues.push(Issue::new(Rule::Frames, Severity::Error, what));
        }
    }
    if facts.has(Field::Line) && !is_exact(frame.line) {
        let what = format!("`line` is {}, which is above 2^53, so viewers round it", frame.line);
        issues.push(Issue::new(Rule::Integers, Severity::Error, what));
    }
    for (name, text) in [("name", &frame.name), ("filename", &frame.filename)] {
        let fault = text_fault(text).map(|fault| format!("`{name}` {fault}"));
        issues.extend(fault.map(|what| Issue::new(Rule::Texts, Severity::Error, what)));
    }
    let is_ordered = keys::shape_of(snapshot, frame.shape)
        .is_none_or(|shape| keys::is_ordered(shape, schema::names(schema::FRAME)));
    if !is_ordered {
        let what = "the keys are not in PyTorch's order, which is name, filename, line".to_owned();
        issues.push(Issue::new(Rule::Frames, Severity::Pytorch, what));
    }
    issues
}
