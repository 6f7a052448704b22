//! Collects findings and counts those that repeat.

use std::{cmp::Reverse, collections::BTreeMap, fmt::Display};

use super::{broken::Finding, rule::Rule, severity::Severity};

/// How many findings of one rule and severity are listed one by one; the rest is counted.
const LISTED: u64 = 20;

/// The findings so far.
#[derive(Debug, Default)]
pub(crate) struct Report {
    findings: Vec<Finding>,
    counts: BTreeMap<(Rule, Severity), u64>,
    lenient: bool,
}

impl Report {
    /// While lenient, an error is reported as a warning: no viewer and no tool reads the parts that
    /// describe pinned host memory.
    pub(crate) fn set_lenient(&mut self, lenient: bool) {
        self.lenient = lenient;
    }

    pub(crate) fn error(&mut self, rule: Rule, place: impl Display, what: impl Display) {
        self.add(rule, Severity::Error, place, what);
    }

    pub(crate) fn warning(&mut self, rule: Rule, place: impl Display, what: impl Display) {
        self.add(rule, Severity::Warning, place, what);
    }

    pub(crate) fn pytorch(&mut self, rule: Rule, place: impl Display, what: impl Display) {
        self.add(rule, Severity::Pytorch, place, what);
    }

    /// Counts a finding; its texts are created only if it is listed.
    pub(crate) fn add(&mut self, rule: Rule, severity: Severity, place: impl Display, what: impl Display) {
        debug_assert!(rule.severities().contains(&severity), "{rule:?} documents no {severity:?}");
        let severity = if self.lenient { severity.min(Severity::Warning) } else { severity };
        let count = self.counts.entry((rule, severity)).or_default();
        *count += 1;
        if *count <= LISTED {
            self.findings.push(Finding::new(rule, severity, place.to_string(), what.to_string()));
        }
    }

    /// All findings in the order in which they were found, then the number of those that are not listed;
    /// `whole` is the place of these last ones.
    pub(crate) fn in_order(mut self, whole: &str) -> Vec<Finding> {
        for ((rule, severity), count) in self.counts {
            let more = count.saturating_sub(LISTED);
            if more > 0 {
                let findings = if more == 1 { "finding" } else { "findings" };
                let what = format!("{more} more {findings} like those above");
                self.findings.push(Finding::new(rule, severity, whole, what));
            }
        }
        self.findings
    }

    /// All findings in the order of their rules, the worst of each first.
    pub(crate) fn by_rule(self, whole: &str) -> Vec<Finding> {
        let mut findings = self.in_order(whole);
        findings.sort_by_key(|finding| (finding.rule, Reverse(finding.severity)));
        findings
    }
}
