//! The scopes of a history: the path that is open at a time, and the scope of an entry.
//!
//! Entries name their scope in `user_metadata`. Where no entry does, the annotations give it by time: a scope is
//! open from its START to its END.

use std::{fmt, ops::Range};

use super::{
    by_device::ByDevice,
    life::{Life, Moment},
    runs::Runs,
    scope_pairs::{pairs_among, scope_number},
    scope_path::{ScopePath, hash_of},
    text_ids::TextIds,
    times::Times,
};
use crate::{
    model::{Annotation, ShapeId, Snapshot, Text, TraceEntry, Value, own_metadata},
    words::{Action, DeviceId, SeededMap, SeededSet},
};

/// A ring may hold a million STARTs whose ENDs it lost; their paths must stay short.
const MAX_DEPTH: usize = 16;

/// Why a text does not identify the end of one scope.
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
                    "there are {n} scopes {name:?}; give one of them, from {name}#0 (the first) to {name}#{last}"
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
    entries: &'a [TraceEntry],
    times: Times<'a>,
    /// The annotations of the device, by their places among all.
    annotations: Vec<usize>,
    /// The paths, each after the one around it; the first is the empty one.
    paths: Vec<ScopePath>,
    /// By path, the number of the one around it.
    outer: Vec<u32>,
    /// The paths of the texts of entries, by shape; empty if no entry names a scope.
    recorded: SeededMap<ShapeId, u32>,
    /// The time from which a path is open, in microseconds, with the path; by time.
    open: Vec<(i64, u32)>,
}

/// The number of the empty path.
const OUTSIDE: u32 = 0;

impl<'a> Scopes<'a> {
    /// Reads the scopes of a device.
    #[must_use]
    pub fn new(snapshot: &'a Snapshot, device: impl Into<DeviceId>) -> Scopes<'a> {
        Scopes::of_device(&ByDevice::new(snapshot), device.into())
    }

    /// Reads the scopes of a device. Like [`Scopes::new`], for several devices of one snapshot.
    pub(crate) fn of_device(records: &ByDevice<'a>, device: DeviceId) -> Scopes<'a> {
        let snapshot = records.snapshot();
        let entries = snapshot.trace(device);
        let mut scopes = Scopes {
            snapshot,
            entries,
            times: Times::new(entries),
            annotations: records.annotations(device).to_vec(),
            paths: vec![ScopePath::EMPTY],
            outer: vec![OUTSIDE],
            recorded: SeededMap::default(),
            open: Vec::new(),
        };
        scopes.read_entries();
        scopes.read_annotations();
        scopes
    }

    /// Finds the paths that entries name; the text of an `annotate` names a block.
    fn read_entries(&mut self) {
        let (mut ids, mut of_id) = (TextIds::default(), SeededMap::default());
        let mut of_name: SeededMap<&str, u32> = SeededMap::default();
        let mut last = None;
        for entry in self.entries.iter().filter(|entry| entry.action != Some(Action::Annotate)) {
            if last.replace(entry.shape) == Some(entry.shape) || self.recorded.contains_key(&entry.shape) {
                continue;
            }
            let text = self.snapshot.shapes.get(entry.shape).value("user_metadata").and_then(Value::as_text);
            let path = match text.filter(|text| !own_metadata(text).is_empty()) {
                None => OUTSIDE,
                Some(text) => *of_id.entry(ids.id(text)).or_insert_with(|| {
                    let name = own_metadata(text);
                    *of_name.entry(name).or_insert_with(|| {
                        let path = if name.len() == text.len() { text.clone() } else { name.into() };
                        self.paths.push(ScopePath::EMPTY.inner(path, hash_of(name)));
                        self.outer.push(OUTSIDE);
                        (self.paths.len() - 1) as u32
                    })
                }),
            };
            self.recorded.insert(entry.shape, path);
        }
        if self.paths.len() == 1 {
            self.recorded.clear();
        }
    }

    /// Follows the annotations in the order of their times.
    fn read_annotations(&mut self) {
        let all = &self.snapshot.external_annotations;
        let mut annotations: Vec<&Annotation> = self.annotations.iter().map(|place| &all[*place]).collect();
        annotations.sort_by_key(|annotation| annotation.time_us);
        let mut tree = PathTree {
            scopes: self,
            ids: TextIds::default(),
            hashes: Vec::new(),
            inner: SeededMap::default(),
        };
        let mut names: Vec<(u32, &Text)> = Vec::new();
        let mut open = Vec::with_capacity(annotations.len());
        for annotation in annotations {
            let id = tree.id(&annotation.name);
            match &*annotation.stage {
                "START" if names.len() < MAX_DEPTH => names.push((id, &annotation.name)),
                "END" => {
                    if let Some(at) = names.iter().rposition(|name| name.0 == id) {
                        names.remove(at);
                    }
                }
                _ => continue,
            }
            let path = names.iter().fold(OUTSIDE, |outer, (id, name)| tree.inner(outer, *id, name));
            open.push((annotation.time_us, path));
        }
        self.open = open;
    }

    fn has_metadata(&self) -> bool {
        !self.recorded.is_empty()
    }

    /// Returns whether the history has no scopes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        !self.has_metadata() && self.open.is_empty()
    }

    /// Returns whether annotations define the scopes, because no entry names one.
    pub(crate) fn are_annotated(&self) -> bool {
        !self.has_metadata() && !self.open.is_empty()
    }

    /// Returns the paths of scopes, each once, in the order in which they first occur.
    #[must_use]
    pub fn paths(&self) -> Vec<&ScopePath> {
        let annotated = self.open.iter().map(|(_, path)| *path);
        let recorded = (0..self.entries.len()).map(|entry| self.path_of(entry));
        let mut is_seen = vec![false; self.paths.len()];
        let is_new = |path: &u32| !std::mem::replace(&mut is_seen[*path as usize], true);
        let numbers = annotated.chain(recorded).filter(is_new);
        let paths: Vec<&ScopePath> = numbers.map(|path| &self.paths[path as usize]).collect();
        // An annotation may have the text of an entry.
        let mut seen = SeededSet::default();
        paths.into_iter().filter(|path| !path.is_empty() && seen.insert(*path)).collect()
    }

    /// Returns the stretches of entries that were recorded in the same scope, in their order, with its path; stretches
    /// outside of any scope are left out. Two stretches of one path that follow each other are two scopes: by the
    /// annotations the first has ended between them.
    pub fn stretches(&self) -> Vec<(Range<usize>, &ScopePath)> {
        let mut stretches: Vec<(Range<usize>, u32)> = Vec::new();
        let mut last_place = 0;
        // The text of an `annotate` names a block, and interrupts no scope.
        let is_of_scope = |entry: &usize| self.entries[*entry].action != Some(Action::Annotate);
        for entry in (0..self.entries.len()).filter(is_of_scope) {
            let (path, place) = (self.path_of(entry), self.place_of(entry));
            let is_left = self.is_left(path, last_place..place);
            last_place = place;
            match stretches.last_mut() {
                Some((range, of)) if *of == path && !is_left => range.end = entry + 1,
                _ => stretches.push((entry..entry + 1, path)),
            }
        }
        let named = stretches.into_iter().filter(|(_, path)| *path != OUTSIDE);
        named.map(|(range, path)| (range, &self.paths[path as usize])).collect()
    }

    /// Returns the number of annotations before an entry, where these give the scopes.
    fn place_of(&self, entry: usize) -> usize {
        if self.has_metadata() || self.open.is_empty() {
            return 0;
        }
        let now_us = self.times.get(entry).unwrap_or_default();
        self.open.partition_point(|(time_us, _)| *time_us <= now_us)
    }

    /// Whether some of these annotations are outside of a path.
    fn is_left(&self, path: u32, annotations: Range<usize>) -> bool {
        let is_outside = |(_, other): &(i64, u32)| {
            let mut other = *other;
            while other != path && other != OUTSIDE {
                other = self.outer[other as usize];
            }
            other != path
        };
        self.open.get(annotations).is_some_and(|between| between.iter().any(is_outside))
    }

    /// Returns the path of the scope that a block was allocated in: empty outside any scope, `None` for a block
    /// from before the history.
    #[must_use]
    pub fn of_life(&self, life: &Life) -> Option<&ScopePath> {
        life.from.entry().map(|entry| self.of_entry(entry))
    }

    /// The path of the scope that an entry was recorded in, given its number; empty outside any scope.
    pub(crate) fn of_entry(&self, number: usize) -> &ScopePath {
        &self.paths[self.path_of(number) as usize]
    }

    /// The number of the path of an entry.
    pub(crate) fn path_of(&self, number: usize) -> u32 {
        let Some(entry) = self.entries.get(number) else { return OUTSIDE };
        if entry.action == Some(Action::Annotate) {
            // Its text names a block.
            return OUTSIDE;
        }
        if self.has_metadata() {
            return self.recorded.get(&entry.shape).copied().unwrap_or(OUTSIDE);
        }
        if self.open.is_empty() {
            return OUTSIDE;
        }
        let now_us = self.times.get(number).unwrap_or_default();
        let n_before = self.open.partition_point(|(time_us, _)| *time_us <= now_us);
        n_before.checked_sub(1).map_or(OUTSIDE, |at| self.open[at].1)
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
        let (_, end) = self.named(text)?;
        end.ok_or_else(|| ScopeError::Open { name: text.to_owned() })
    }

    /// Returns the moment before the first entry of a scope of this device, which is named as in
    /// [`Scopes::end_of`]. A scope that began before the history begins with it.
    ///
    /// # Errors
    /// If the text names no scope or several.
    pub fn start_of(&self, text: &str) -> Result<Moment, ScopeError> {
        self.named(text).map(|(start, _)| start)
    }

    /// Returns the moments at which a scope begins and ends.
    fn named(&self, text: &str) -> Result<(Moment, Option<Moment>), ScopeError> {
        let (name, number) = scope_number(text, |text| !self.occurrences(text).is_empty());
        let spans = self.occurrences(name);
        let owned = || name.to_owned();
        match (spans.len(), number) {
            (0, _) => Err(ScopeError::Unknown { name: text.to_owned() }),
            (1, None) => Ok(spans[0]),
            (n, None) => Err(ScopeError::Several { name: owned(), n }),
            (n, Some(number)) => {
                spans.get(number).copied().ok_or_else(|| ScopeError::Missing { name: owned(), number, n })
            }
        }
    }

    /// Returns where all scopes with a name begin and end, in the order in which they begin; `None` is after the
    /// history. Without annotations, a scope is a run of entries inside it.
    fn occurrences(&self, name: &str) -> Vec<(Moment, Option<Moment>)> {
        let annotations = &self.snapshot.external_annotations;
        let times = Times::new(self.entries).rising();
        let moment = |n_before: usize| n_before.checked_sub(1).map_or(Moment::START, Moment::after);
        let end = |at: usize| moment(times.n_until(annotations[at].time_us));
        // An entry of the same microsecond is in the scope.
        let start = |at: usize| moment(times.n_until(annotations[at].time_us.saturating_sub(1)));
        let spans: Vec<_> = pairs_among(annotations, self.annotations.iter().copied())
            .into_iter()
            .filter(|pair| pair.has_name(annotations, name))
            .map(|pair| (pair.start.map_or(Moment::START, start), pair.end.map(end)))
            .collect();
        if !spans.is_empty() {
            return spans;
        }
        let is_in = self.paths_in(name);
        let mut runs = Runs::default();
        for (number, entry) in self.entries.iter().enumerate() {
            match entry.action {
                Some(Action::Annotate) => runs.pass(),
                _ => runs.take(is_in[self.path_of(number) as usize]),
            }
        }
        runs.found.iter().map(|run| (moment(run.start), Some(moment(run.end)))).collect()
    }

    /// Returns by entry whether it was recorded in a scope with a name, or in one inside it.
    #[must_use]
    pub fn entries_in(&self, name: &str) -> Vec<bool> {
        let is_in = self.paths_in(name);
        (0..self.entries.len()).map(|entry| is_in[self.path_of(entry) as usize]).collect()
    }

    /// By path, whether a scope of it has a name.
    fn paths_in(&self, name: &str) -> Vec<bool> {
        let mut is_in: Vec<bool> = Vec::with_capacity(self.paths.len());
        for (path, outer) in self.paths.iter().zip(&self.outer) {
            let is_outer_in = is_in.get(*outer as usize).copied().unwrap_or(false);
            is_in.push(path.is_in(name, is_outer_in));
        }
        is_in
    }
}

/// Makes the paths of annotated scopes, each once.
struct PathTree<'s, 'a> {
    scopes: &'s mut Scopes<'a>,
    ids: TextIds<'a>,
    /// By the number of a name, the hash of its text.
    hashes: Vec<u64>,
    /// The path inside a path, by the number of its name.
    inner: SeededMap<(u32, u32), u32>,
}

impl<'a> PathTree<'_, 'a> {
    /// Returns the number of a name.
    fn id(&mut self, name: &'a Text) -> u32 {
        let id = self.ids.id(name);
        if id as usize == self.hashes.len() {
            self.hashes.push(hash_of(name));
        }
        id
    }

    /// Returns the path of a name inside another.
    fn inner(&mut self, outer: u32, id: u32, name: &Text) -> u32 {
        let Scopes { paths, outer: outers, .. } = self.scopes;
        *self.inner.entry((outer, id)).or_insert_with(|| {
            paths.push(paths[outer as usize].inner(name.clone(), self.hashes[id as usize]));
            outers.push(outer);
            (paths.len() - 1) as u32
        })
    }
}
