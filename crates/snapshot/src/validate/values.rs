//! Rules 4 and 6 for single values: numbers that viewers round, keys and texts that they lose.

use std::{fmt::Display, sync::Arc};

use super::issue::Issue;
use crate::{
    model::Value,
    words::{Address, Report, Rule, SeededSet, Severity},
};

/// JavaScript represents every integer up to this one exactly.
const MAX_EXACT: u128 = 1 << 53;

/// Returns whether an integer keeps its value in a viewer.
pub(super) fn is_exact(int: impl Into<i128>) -> bool {
    int.into().unsigned_abs() <= MAX_EXACT
}

/// Returns which bound such an integer exceeds, for a message.
fn bound(int: impl Into<i128>) -> &'static str {
    if int.into() < 0 { "below -2^53" } else { "above 2^53" }
}

/// Reports an integer of a field that loses its value in a viewer (rule 4).
pub(super) fn check_exact(
    name: &str,
    int: impl Into<i128> + Display + Copy,
    place: impl Display,
    report: &mut Report,
) {
    if !is_exact(int) {
        let what = format_args!("`{name}` is {int}, which is {}, so viewers round it", bound(int));
        report.error(Rule::Integers, place, what);
    }
}

/// Reports an address that loses its value in a viewer (rule 4).
///
/// One of 2^63 or more, as Intel's GPUs have, takes nine bytes. Viewers compute with it exactly or throw.
pub(super) fn check_address(name: &str, address: Address, place: impl Display, report: &mut Report) {
    if address.0 < 1 << 63 {
        return check_exact(name, address.0, place, report);
    }
    let what = format_args!(
        "`{name}` is {address}, which is 2^63 or more; web viewers from before June 2026 throw an error on it"
    );
    report.add(Rule::Integers, Severity::Warning, place, what);
}

/// Returns the error in a text, if there is one (rule 6).
pub(super) fn text_fault(text: &str) -> Option<&'static str> {
    text.starts_with('\u{feff}').then_some("starts with a byte order mark, which the viewer drops")
}

/// Returns the error in a key, if there is one (rule 6).
pub(super) fn key_fault(key: &str) -> Option<&'static str> {
    if key == "__proto__" {
        return Some("cannot be a key, because the viewer drops it; rename it");
    }
    text_fault(key)
}

/// Walks values, each shared container once.
///
/// A file can refer to one list a billion times through its memo. The walk remembers the containers that
/// it has seen, so that its time is bounded by what is in memory.
#[derive(Debug, Default)]
pub(super) struct Walk {
    seen: SeededSet<*const ()>,
}

impl Walk {
    /// Adds the errors inside a value under this key.
    pub(super) fn check(&mut self, key: &str, value: &Value, issues: &mut Vec<Issue>) {
        let mut open = vec![value];
        while let Some(value) = open.pop() {
            match value {
                Value::List(all) | Value::Tuple(all) if self.is_new(Arc::as_ptr(all).cast()) => {
                    open.extend(all.iter());
                }
                Value::Dict(pairs) if self.is_new(Arc::as_ptr(pairs).cast()) => {
                    for (inner, value) in pairs.iter() {
                        check_inner_key(key, inner, issues);
                        open.push(value);
                    }
                }
                leaf => check_leaf(key, leaf, issues),
            }
        }
    }

    fn is_new(&mut self, container: *const ()) -> bool {
        self.seen.insert(container)
    }
}

fn check_inner_key(key: &str, inner: &Value, issues: &mut Vec<Issue>) {
    let fault = match inner {
        Value::Text(inner) => key_fault(inner).map(|fault| format!("{inner:?} in `{key}` {fault}")),
        other => Some(format!("a key in `{key}` is {}, but keys must be str", other.kind())),
    };
    issues.extend(fault.map(|what| Issue::new(Rule::Texts, Severity::Error, what)));
}

fn check_leaf(key: &str, leaf: &Value, issues: &mut Vec<Issue>) {
    let issue = match leaf {
        Value::Int(int) if !is_exact(*int) => Issue::new(
            Rule::Integers,
            Severity::Error,
            format!("`{key}` contains {int}, which is {}, so viewers round it", bound(*int)),
        ),
        Value::Big(_) => Issue::new(
            Rule::Integers,
            Severity::Error,
            format!(
                "`{key}` contains an int wider than 64 bits; viewers turn it into a BigInt and throw an error"
            ),
        ),
        Value::Text(text) => match text_fault(text) {
            Some(fault) => Issue::new(Rule::Texts, Severity::Error, format!("a str in `{key}` {fault}")),
            None => return,
        },
        _ => return,
    };
    issues.push(issue);
}
