//! The scopes of a device as stretches of its entries, each with its depth.

use std::ops::Range;

use super::Scopes;
use crate::words::SeededMap;

/// A scope from its begin to its end.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct ScopeSpan {
    /// Its name after those of the scopes around it, separated by slashes.
    pub path: String,
    /// Its name.
    pub name: String,
    /// The entries that were recorded in it, including those in scopes inside it.
    pub entries: Range<usize>,
    /// The number of scopes around it.
    pub depth: usize,
}

/// The most nested scopes. Each path has the names of the scopes around it, so a name of a hundred thousand slashes
/// would take gigabytes: what is deeper belongs to the name of the innermost.
const DEEPEST: usize = 100;

impl Scopes<'_> {
    /// Returns the scopes, the outer ones first, and those of one depth in the order in which they begin.
    ///
    /// After a stretch outside of every scope, a scope of the same name is another one. Of two stretches of one path that
    /// follow each other, the innermost scope was started again.
    #[must_use]
    pub fn spans(&self) -> Vec<ScopeSpan> {
        let (mut open, mut closed): (Vec<ScopeSpan>, Vec<ScopeSpan>) = (Vec::new(), Vec::new());
        let mut last_path = String::new();
        for (range, path) in self.stretches() {
            let path = path.to_string();
            let names: Vec<&str> = path.splitn(DEEPEST, '/').collect();
            let is_same =
                |(depth, name): &(usize, &&str)| open.get(*depth).is_some_and(|scope| scope.name == **name);
            let n_same = names.iter().enumerate().take_while(is_same).count();
            let is_adjacent = open.first().is_some_and(|outer| outer.entries.end == range.start);
            let n_kept = match (is_adjacent, path == last_path) {
                (false, _) => 0,
                (true, true) => n_same.saturating_sub(1),
                (true, false) => n_same,
            };
            closed.extend(open.drain(n_kept..));
            for (depth, name) in names.iter().enumerate().skip(n_kept) {
                let (path, name) = (names[..=depth].join("/"), (*name).to_owned());
                open.push(ScopeSpan { path, name, entries: range.clone(), depth });
            }
            open.iter_mut().for_each(|scope| scope.entries.end = range.end);
            last_path = path;
        }
        closed.append(&mut open);
        closed.sort_by_key(|scope| (scope.depth, scope.entries.start));
        closed
    }

    /// Returns the outermost ones of [`Scopes::spans`], in time that does not grow with their depth.
    pub(crate) fn outermost(&self) -> Vec<ScopeSpan> {
        let mut outer: Vec<ScopeSpan> = Vec::new();
        let mut last_was_innermost = false;
        for (range, path) in self.stretches() {
            let path = path.to_string();
            let (name, is_innermost) = match path.split_once('/') {
                Some((name, _)) => (name, false),
                None => (&*path, true),
            };
            // Of two stretches of one path, the innermost scope has begun anew.
            let begins_anew = is_innermost && last_was_innermost;
            match outer.last_mut() {
                Some(last) if last.entries.end == range.start && last.name == name && !begins_anew => {
                    last.entries.end = range.end;
                }
                _ => outer.push(ScopeSpan {
                    path: name.to_owned(),
                    name: name.to_owned(),
                    entries: range,
                    depth: 0,
                }),
            }
            last_was_innermost = is_innermost;
        }
        outer
    }

    /// Returns the outermost scopes in the order in which they begin. Of several with one name each has its number after
    /// its name, as in `step#3`.
    #[must_use]
    pub fn steps(&self) -> Vec<ScopeSpan> {
        let mut outer = self.outermost();
        let mut counts = SeededMap::<String, usize>::default();
        outer.iter().for_each(|span| *counts.entry(span.name.clone()).or_default() += 1);
        let mut numbers = SeededMap::<String, usize>::default();
        for span in outer.iter_mut().filter(|span| counts.get(&span.name).is_some_and(|n| *n > 1)) {
            let number = numbers.entry(span.name.clone()).or_default();
            let name = format!("{}#{number}", span.name);
            *number += 1;
            span.name = name;
        }
        outer
    }
}

/// Returns the step of an entry: `in step#3`, or `after step#3` if it is outside the steps; `None` before the first
/// step.
#[must_use]
pub fn step_of(steps: &[ScopeSpan], entry: usize) -> Option<String> {
    let step = steps.iter().rev().find(|step| step.entries.start <= entry)?;
    let word = if step.entries.contains(&entry) { "in" } else { "after" };
    Some(format!("{word} {}", step.name))
}
