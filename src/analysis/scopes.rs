//! Which scope an allocation was made in.
//!
//! `user_metadata` says it entry by entry. Where no entry has any, the
//! annotations do, by time: a scope is open from its START to its END.

use rustc_hash::FxHashSet;

use super::life::{Life, Moment};
use crate::{
    event::DeviceId,
    snapshot::{Snapshot, TraceEntry},
};

/// The scopes of one device's history.
#[derive(Debug)]
pub struct Scopes<'a> {
    snapshot: &'a Snapshot,
    entries: &'a [TraceEntry],
    has_metadata: bool,
    /// From when on which path is open, by time.
    open: Vec<(i64, String)>,
}

impl<'a> Scopes<'a> {
    /// Reads the scopes of a device.
    #[must_use]
    pub fn of(snapshot: &'a Snapshot, device: DeviceId) -> Scopes<'a> {
        let entries = snapshot.trace(device);
        // A scope is a key of the shape, so the shapes in use tell without a look at each entry.
        let mut is_used = vec![false; snapshot.shapes.len()];
        entries.iter().for_each(|entry| is_used[entry.shape.index()] = true);
        let mut shapes = snapshot.shapes.iter().filter(|(id, _)| is_used[id.index()]);
        let has_metadata =
            shapes.any(|(_, shape)| shape.text("user_metadata").is_some_and(|text| !text.is_empty()));
        Scopes { snapshot, entries, has_metadata, open: open(snapshot, device) }
    }

    /// Whether there are any.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        !self.has_metadata && self.open.is_empty()
    }

    /// The paths of scopes, each once, in the order in which they were first seen.
    #[must_use]
    pub fn paths(&self) -> Vec<&str> {
        let annotated = self.open.iter().map(|(_, path)| path.as_str());
        let recorded = self.entries.iter().map(|entry| self.of_entry(entry));
        let mut seen = FxHashSet::default();
        annotated.chain(recorded).filter(|path| !path.is_empty() && seen.insert(*path)).collect()
    }

    /// The scope a block was allocated in: empty outside any, `None` before the history.
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

    /// The moment at which a scope was left for the last time; a name stands for every scope in it.
    #[must_use]
    pub fn end_of(&self, name: &str) -> Option<Moment> {
        let is_named = |path: &str| path.split('/').any(|part| part == name) || path == name;
        let annotated = self.snapshot.external_annotations.iter().rev();
        let mut ends =
            annotated.filter(|annotation| &*annotation.stage == "END" && is_named(&annotation.name));
        if let Some(end) = ends.next() {
            let n = self.entries.partition_point(|entry| entry.time_us <= end.time_us);
            return Some(n.checked_sub(1).map_or(Moment::START, Moment::after));
        }
        self.entries.iter().rposition(|entry| is_named(self.of_entry(entry))).map(Moment::after)
    }
}

/// Walks the annotations of a device in the order of their times.
fn open(snapshot: &Snapshot, device: DeviceId) -> Vec<(i64, String)> {
    let is_of = |at: &usize| snapshot.external_annotations[*at].device == device;
    let mut order: Vec<usize> = (0..snapshot.external_annotations.len()).filter(is_of).collect();
    order.sort_by_key(|at| snapshot.external_annotations[*at].time_us);
    let mut names: Vec<&str> = Vec::new();
    let mut all = Vec::with_capacity(order.len());
    for annotation in order.into_iter().map(|at| &snapshot.external_annotations[at]) {
        match &*annotation.stage {
            "START" if names.len() < MAX_DEPTH => names.push(&annotation.name),
            "END" => {
                if let Some(at) = names.iter().rposition(|name| **name == *annotation.name) {
                    names.remove(at);
                }
            }
            _ => continue,
        }
        all.push((annotation.time_us, names.join("/")));
    }
    all
}

/// A ring may hold a million starts whose ends it lost; their paths must stay short.
const MAX_DEPTH: usize = 16;
