//! Scopes of a history: the pairs of annotations, the path that is open at a time, and the scope of an entry.
//!
//! Entries name their scope in `user_metadata`. Where no entry does, the annotations give it by time: a scope is
//! open from its START to its END.

use std::{fmt, ops::Range};

use rustc_hash::{FxHashMap, FxHashSet};

use super::{
    life::{Life, Moment},
    times::Times,
};
use crate::{
    event::{Action, DeviceId},
    snapshot::{Annotation, Snapshot, Text, TraceEntry},
};

/// A ring may hold a million STARTs whose ENDs it lost; their paths must stay short.
const MAX_DEPTH: usize = 16;

/// Annotations that belong together, by their places among all. One of the two is missing where a
/// ring lost it, or where the snapshot was taken inside the scope.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ScopePair {
    pub(crate) start: Option<usize>,
    pub(crate) end: Option<usize>,
}

/// Pairs each START with the END of its name and device; of several that are open the newest ends
/// first. The pairs are in the order of their first annotation; annotations of another stage are in
/// none.
pub(crate) fn scope_pairs(annotations: &[Annotation]) -> Vec<ScopePair> {
    let mut open: FxHashMap<(&str, DeviceId), Vec<usize>> = FxHashMap::default();
    let mut pairs: Vec<ScopePair> = Vec::new();
    for (at, annotation) in annotations.iter().enumerate() {
        let of_name = open.entry((&annotation.name, annotation.device)).or_default();
        match &*annotation.stage {
            "START" => {
                of_name.push(pairs.len());
                pairs.push(ScopePair { start: Some(at), end: None });
            }
            "END" => match of_name.pop() {
                Some(begun) => pairs[begun].end = Some(at),
                None => pairs.push(ScopePair { start: None, end: Some(at) }),
            },
            _ => {}
        }
    }
    pairs
}

/// Returns whether a scope of a path has a name, which may be a path itself. Every scope inside it is in it
/// too.
pub(crate) fn is_in_scope(path: &str, name: &str) -> bool {
    let is_whole = |(at, _): (usize, &str)| {
        let (before, after) = (&path[..at], &path[at + name.len()..]);
        (before.is_empty() || before.ends_with('/')) && (after.is_empty() || after.starts_with('/'))
    };
    !name.is_empty() && path.match_indices(name).any(is_whole)
}

/// Returns whether a path is of a scope with a name, and not of a scope inside that.
fn is_scope(path: &str, name: &str) -> bool {
    let before = path.strip_suffix(name).filter(|_| !name.is_empty());
    before.is_some_and(|before| before.is_empty() || before.ends_with('/'))
}

/// Splits `step#3` into a name and the number of an occurrence, unless there is a scope with the whole text as
/// its name.
pub(crate) fn scope_number(text: &str, is_name: impl Fn(&str) -> bool) -> (&str, Option<usize>) {
    let numbered = || {
        let (name, number) = text.rsplit_once('#')?;
        Some((name, number.bytes().all(|byte| byte.is_ascii_digit()).then(|| number.parse().ok())??))
    };
    match numbered().filter(|(name, _)| !name.is_empty() && !is_name(text)) {
        Some((name, number)) => (name, Some(number)),
        None => (text, None),
    }
}

/// Returns the annotations of the scopes with a name, of all devices, in the order in which they begin. If the
/// ring lost the START of a scope, its END counts.
pub(crate) fn scopes_named(annotations: &[Annotation], name: &str) -> impl Iterator<Item = ScopePair> {
    let is_named = move |pair: &ScopePair| {
        let of_pair = pair.start.or(pair.end);
        of_pair.is_some_and(|annotation| is_scope(&annotations[annotation].name, name))
    };
    scope_pairs(annotations).into_iter().filter(is_named)
}

/// The longest ranges of entries that all meet a condition, found entry by entry.
#[derive(Debug, Default)]
pub(crate) struct Runs {
    pub(crate) found: Vec<Range<usize>>,
    n_entries: usize,
    /// The number of entries since the last that was not passed over.
    n_passed: usize,
}

impl Runs {
    /// Takes the next entry, and whether it meets the condition.
    pub(crate) fn take(&mut self, holds: bool) {
        let (number, n_passed) = (self.n_entries, std::mem::take(&mut self.n_passed));
        self.n_entries += 1;
        match self.found.last_mut() {
            _ if !holds => {}
            Some(last) if last.end + n_passed == number => last.end = number + 1,
            _ => self.found.push(number..number + 1),
        }
    }

    /// Passes over an entry that cannot meet the condition: it does not end the range around it.
    pub(crate) fn pass(&mut self) {
        self.n_entries += 1;
        self.n_passed += 1;
    }
}

/// Why a text does not name the end of one scope.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ScopeError {
    /// No scope has this name.
    Unknown {
        /// The name.
        name: String,
    },
    /// There are several scopes with this name, and the text names all of them.
    Several {
        /// The name.
        name: String,
        /// The number of scopes.
        n: usize,
    },
    /// There are fewer scopes with this name.
    Missing {
        /// The name.
        name: String,
        /// The number of the scope, counted from 0.
        number: usize,
        /// The number of scopes.
        n: usize,
    },
    /// The scope does not end within the history.
    Open {
        /// The name.
        name: String,
    },
}

impl fmt::Display for ScopeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ScopeError::Unknown { name } => write!(f, "there is no scope {name:?}"),
            ScopeError::Several { name, n } => {
                let last = n - 1;
                write!(
                    f,
                    "there are {n} scopes {name:?}; name one of them, from {name}#0 (the first) to {name}#{last}"
                )
            }
            ScopeError::Missing { name, number, n } => {
                write!(f, "scope {name:?} number {number} does not exist: there are {n}, numbered from 0")
            }
            ScopeError::Open { name } => write!(f, "scope {name:?} does not end within the history"),
        }
    }
}

impl std::error::Error for ScopeError {}

/// The scopes of one device's history.
#[derive(Debug)]
pub struct Scopes<'a> {
    snapshot: &'a Snapshot,
    device: DeviceId,
    entries: &'a [TraceEntry],
    times: Times<'a>,
    has_metadata: bool,
    /// The time from which a path is open, in microseconds, with the path; by time.
    open: Vec<(i64, String)>,
}

impl<'a> Scopes<'a> {
    /// Reads the scopes of a device.
    #[must_use]
    pub fn new(snapshot: &'a Snapshot, device: DeviceId) -> Scopes<'a> {
        let entries = snapshot.trace(device);
        let has_metadata = has_metadata(snapshot, entries);
        let (times, open) = (Times::new(entries), open_paths(snapshot, device));
        Scopes { snapshot, device, entries, times, has_metadata, open }
    }

    /// Returns whether the history has no scopes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        !self.has_metadata && self.open.is_empty()
    }

    /// Whether annotations give the scopes, because no entry names one.
    pub(crate) fn are_annotated(&self) -> bool {
        !self.has_metadata && !self.open.is_empty()
    }

    /// Returns the paths of scopes, each once, in the order in which they first occur.
    #[must_use]
    pub fn paths(&self) -> Vec<&str> {
        let annotated = self.open.iter().map(|(_, path)| path.as_str());
        let recorded = (0..self.entries.len()).map(|entry| self.of_entry(entry));
        let mut seen = FxHashSet::default();
        annotated.chain(recorded).filter(|path| !path.is_empty() && seen.insert(*path)).collect()
    }

    /// Returns the path of the scope that a block was allocated in: empty outside any scope, `None` for a block
    /// from before the history.
    #[must_use]
    pub fn of_life(&self, life: &Life) -> Option<&str> {
        life.from.entry().map(|entry| self.of_entry(entry))
    }

    /// The path of the scope that an entry was recorded in, given its number; empty outside any scope.
    pub(crate) fn of_entry(&self, number: usize) -> &str {
        let Some(entry) = self.entries.get(number) else { return "" };
        if entry.action == Some(Action::Annotate) {
            // Its text names a block.
            return "";
        }
        if self.has_metadata {
            return self.snapshot.user_metadata(entry);
        }
        let now_us = self.times.get(number).unwrap_or(entry.time_us);
        let n_before = self.open.partition_point(|(time_us, _)| *time_us <= now_us);
        n_before.checked_sub(1).map_or("", |at| &self.open[at].1)
    }

    /// Returns the moment at which a scope of this device ended.
    ///
    /// `step` names a scope that occurs once. Of several, `step#3` names the one with the number 3; they are
    /// numbered from 0 in the order in which they begin. A scope whose own name is `step#3` has precedence.
    /// `outer/step` names only the scopes `step` inside `outer`.
    ///
    /// # Errors
    /// If the text names no scope or several, or if the scope does not end within the history.
    pub fn end_of(&self, text: &str) -> Result<Moment, ScopeError> {
        let (name, number) = scope_number(text, |text| !self.ends(text).is_empty());
        let ends = self.ends(name);
        let owned = || name.to_owned();
        let end = match (ends.len(), number) {
            (0, _) => return Err(ScopeError::Unknown { name: text.to_owned() }),
            (1, None) => ends[0],
            (n, None) => return Err(ScopeError::Several { name: owned(), n }),
            (n, Some(number)) => {
                *ends.get(number).ok_or_else(|| ScopeError::Missing { name: owned(), number, n })?
            }
        };
        end.ok_or_else(|| ScopeError::Open { name: text.to_owned() })
    }

    /// Returns the ends of all scopes with a name, in the order in which the scopes begin; `None` is after the
    /// history. Without annotations, a scope is a run of entries inside it.
    fn ends(&self, name: &str) -> Vec<Option<Moment>> {
        let annotations = &self.snapshot.external_annotations;
        let of_device = |pair: &ScopePair| {
            pair.start.or(pair.end).is_some_and(|place| annotations[place].device == self.device)
        };
        let ends: Vec<_> = scopes_named(annotations, name)
            .filter(of_device)
            .map(|pair| pair.end.map(|end| self.moment_at(annotations[end].time_us)))
            .collect();
        if !ends.is_empty() {
            return ends;
        }
        let mut runs = Runs::default();
        for (number, entry) in self.entries.iter().enumerate() {
            match entry.action {
                Some(Action::Annotate) => runs.pass(),
                _ => runs.take(is_in_scope(self.of_entry(number), name)),
            }
        }
        runs.found.iter().map(|run| Some(Moment::after(run.end - 1))).collect()
    }

    /// Returns the moment after the last entry that is not later than a time.
    fn moment_at(&self, time_us: i64) -> Moment {
        self.times.n_until(time_us).checked_sub(1).map_or(Moment::START, Moment::after)
    }
}

/// Whether an entry names a scope; the text of an `annotate` names a block. A scope is a key of the shape, so
/// that the shapes in use answer it without a look at the text of each entry.
fn has_metadata(snapshot: &Snapshot, entries: &[TraceEntry]) -> bool {
    let mut is_used = vec![false; snapshot.shapes.len()];
    let may_name = |entry: &&TraceEntry| entry.action != Some(Action::Annotate);
    entries.iter().filter(may_name).for_each(|entry| is_used[entry.shape.index()] = true);
    let mut shapes = snapshot.shapes.iter().filter(|(id, _)| is_used[id.index()]);
    shapes.any(|(_, shape)| shape.text("user_metadata").is_some_and(|text| !text.is_empty()))
}

/// Follows the annotations of a device in the order of their times.
fn open_paths(snapshot: &Snapshot, device: DeviceId) -> Vec<(i64, String)> {
    let of_device = |annotation: &&Annotation| annotation.device == device;
    let mut annotations: Vec<&Annotation> = snapshot.external_annotations.iter().filter(of_device).collect();
    annotations.sort_by_key(|annotation| annotation.time_us);
    let mut names: Vec<&Text> = Vec::new();
    let mut all = Vec::with_capacity(annotations.len());
    for annotation in annotations {
        match &*annotation.stage {
            "START" if names.len() < MAX_DEPTH => names.push(&annotation.name),
            "END" => {
                if let Some(at) = names.iter().rposition(|name| **name == annotation.name) {
                    names.remove(at);
                }
            }
            _ => continue,
        }
        let path: Vec<&str> = names.iter().map(|name| &***name).collect();
        all.push((annotation.time_us, path.join("/")));
    }
    all
}
