//! Scopes of a history: the pairs of annotations, the path that is open at a time, and the scope of an entry.
//!
//! Entries name their scope in `user_metadata`. Where no entry does, the annotations give it by time: a scope is
//! open from its START to its END.

use rustc_hash::{FxHashMap, FxHashSet};

use super::life::{Life, Moment};
use crate::{
    event::DeviceId,
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

/// Whether a scope of a path has a name. Every scope inside it is in it too.
pub(crate) fn is_in_scope(path: &str, name: &str) -> bool {
    path == name || path.split('/').any(|part| part == name)
}

/// The scopes of one device's history.
#[derive(Debug)]
pub struct Scopes<'a> {
    snapshot: &'a Snapshot,
    entries: &'a [TraceEntry],
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
        Scopes { snapshot, entries, has_metadata, open: open_paths(snapshot, device) }
    }

    /// Whether the history has no scopes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        !self.has_metadata && self.open.is_empty()
    }

    /// The paths of scopes, each once, in the order in which they first occur.
    #[must_use]
    pub fn paths(&self) -> Vec<&str> {
        let annotated = self.open.iter().map(|(_, path)| path.as_str());
        let recorded = self.entries.iter().map(|entry| self.of_entry(entry));
        let mut seen = FxHashSet::default();
        annotated.chain(recorded).filter(|path| !path.is_empty() && seen.insert(*path)).collect()
    }

    /// The path of the scope that a block was allocated in: empty outside any scope, `None` for a block
    /// from before the history.
    #[must_use]
    pub fn of_life(&self, life: &Life) -> Option<&str> {
        life.from.entry().and_then(|entry| self.entries.get(entry)).map(|entry| self.of_entry(entry))
    }

    fn of_entry(&self, entry: &TraceEntry) -> &str {
        if self.has_metadata {
            return self.snapshot.user_metadata(entry);
        }
        let n_before = self.open.partition_point(|(time_us, _)| *time_us <= entry.time_us);
        n_before.checked_sub(1).map_or("", |at| &self.open[at].1)
    }

    /// The moment at which a scope ended for the last time; `None` if there is no such scope. A name
    /// includes every scope inside it.
    #[must_use]
    pub fn end_of(&self, name: &str) -> Option<Moment> {
        let annotated = self.snapshot.external_annotations.iter().rev();
        let mut ends =
            annotated.filter(|annotation| &*annotation.stage == "END" && is_in_scope(&annotation.name, name));
        if let Some(end) = ends.next() {
            let n = self.entries.partition_point(|entry| entry.time_us <= end.time_us);
            return Some(n.checked_sub(1).map_or(Moment::START, Moment::after));
        }
        self.entries.iter().rposition(|entry| is_in_scope(self.of_entry(entry), name)).map(Moment::after)
    }
}

/// Whether an entry names a scope. A scope is a key of the shape, so that the shapes in use answer it
/// without a look at the text of each entry.
fn has_metadata(snapshot: &Snapshot, entries: &[TraceEntry]) -> bool {
    let mut is_used = vec![false; snapshot.shapes.len()];
    entries.iter().for_each(|entry| is_used[entry.shape.index()] = true);
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
