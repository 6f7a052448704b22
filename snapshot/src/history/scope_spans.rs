//! The scopes of a device as stretches of its entries, each with its depth.

use std::ops::Range;

use super::Scopes;

/// A scope from its begin to its end.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct ScopeSpan {
    /// Its name behind those of the scopes around it, with slashes between them.
    pub path: String,
    /// Its name.
    pub name: String,
    /// The entries that were recorded in it, those of scopes inside it among them.
    pub entries: Range<usize>,
    /// The number of scopes around it.
    pub depth: usize,
}

impl Scopes<'_> {
    /// Returns the scopes, the outer ones first, and those of one depth in the order in which they begin.
    ///
    /// After a stretch outside of every scope, a scope of the same name is another one. Of two stretches of one path that
    /// follow each other, the innermost scope has begun anew.
    #[must_use]
    pub fn spans(&self) -> Vec<ScopeSpan> {
        let (mut open, mut closed): (Vec<ScopeSpan>, Vec<ScopeSpan>) = (Vec::new(), Vec::new());
        let mut last_path = String::new();
        for (range, path) in self.stretches() {
            let path = path.to_string();
            let names: Vec<&str> = path.split('/').collect();
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
}
