//! Collects findings and sums up those that repeat.

use std::{cmp::Reverse, collections::BTreeMap, fmt::Display};

use super::{Finding, Severity};

/// How many findings of one rule and severity are told one by one.
const TOLD: u64 = 20;

/// The findings so far.
#[derive(Debug, Default)]
pub(super) struct Report {
    findings: Vec<Finding>,
    counts: BTreeMap<(u8, Severity), u64>,
    lenient: bool,
}

impl Report {
    /// Until told otherwise an error counts as a warning: no viewer and no
    /// tool reads the parts that describe pinned host memory.
    pub(super) fn set_lenient(&mut self, lenient: bool) {
        self.lenient = lenient;
    }

    pub(super) fn error(&mut self, rule: u8, place: impl Display, what: impl Display) {
        self.add(rule, Severity::Error, place, what);
    }

    pub(super) fn warning(&mut self, rule: u8, place: impl Display, what: impl Display) {
        self.add(rule, Severity::Warning, place, what);
    }

    pub(super) fn pytorch(&mut self, rule: u8, place: impl Display, what: impl Display) {
        self.add(rule, Severity::Pytorch, place, what);
    }

    /// Counts a finding; its texts are made only if it is told.
    pub(super) fn add(&mut self, rule: u8, severity: Severity, place: impl Display, what: impl Display) {
        let severity = if self.lenient { severity.min(Severity::Warning) } else { severity };
        let count = self.counts.entry((rule, severity)).or_default();
        *count += 1;
        if *count <= TOLD {
            self.findings.push(Finding::new(rule, severity, place.to_string(), what.to_string()));
        }
    }

    /// How often a rule was broken.
    pub(super) fn count(&self, rule: u8, severity: Severity) -> u64 {
        self.counts.get(&(rule, severity)).copied().unwrap_or(0)
    }

    /// All findings in the order of their rules, the worst of each first.
    pub(super) fn finish(mut self) -> Vec<Finding> {
        for ((rule, severity), count) in self.counts {
            let more = count.saturating_sub(TOLD);
            if more > 0 {
                let what = format!("and {more} more like those above");
                self.findings.push(Finding::new(rule, severity, "snapshot", what));
            }
        }
        self.findings.sort_by_key(|finding| (finding.rule, Reverse(finding.severity)));
        self.findings
    }
}
