//! The paths of a recorder's scopes by number, and the annotations of their starts and ends.
#![forbid(unsafe_code)]

use std::sync::Arc;

use indexmap::IndexSet;
use rustc_hash::FxBuildHasher;

use super::clock::Ticks;
use crate::tape::{Note, TapeFile};
use memreel_snapshot::words::DeviceId;

/// The number of a scope's path in its recorder; 0 is outside any scope.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct ScopeId(pub(crate) u32);

/// The start or the end of a scope.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Annotation {
    pub(crate) is_start: bool,
    pub(crate) scope: ScopeId,
    pub(crate) device: DeviceId,
    pub(crate) at: Ticks,
}

impl Annotation {
    /// Returns the annotation as a note for a tape's file.
    pub(super) fn to_note(self) -> Note {
        let Annotation { is_start, scope, device, at } = self;
        Note::Annotation { is_start, scope: scope.0, device: device.0, ticks: at.0 }
    }
}

/// A recorder's table of scope paths, by number.
#[derive(Debug)]
pub(super) struct ScopeNames {
    all: IndexSet<Arc<str>, FxBuildHasher>,
    file: Option<Arc<TapeFile>>,
}

impl Default for ScopeNames {
    fn default() -> Self {
        ScopeNames { all: std::iter::once("".into()).collect(), file: None }
    }
}

impl ScopeNames {
    /// Returns the number of the path of `name` inside `parent`, adding it if it is new.
    pub(super) fn intern(&mut self, parent: ScopeId, name: &str) -> ScopeId {
        let path: Arc<str> = match self.all.get_index(parent.0 as usize) {
            Some(parent) if !parent.is_empty() => format!("{parent}/{name}").into(),
            _ => name.into(),
        };
        self.add(path)
    }

    /// Returns the number of a whole path, adding it if it is new.
    fn add(&mut self, path: Arc<str>) -> ScopeId {
        let (index, is_new) = self.all.insert_full(path);
        let scope = ScopeId(u32::try_from(index).unwrap_or_default());
        if is_new {
            self.note(scope);
        }
        scope
    }

    fn note(&self, scope: ScopeId) {
        if let (Some(file), Some(path)) = (&self.file, self.all.get_index(scope.0 as usize)) {
            file.note(&Note::Scope { number: scope.0, path: path.to_string() });
        }
    }

    /// Writes paths into a file from now on, starting with the existing ones.
    pub(super) fn set_file(&mut self, file: Option<Arc<TapeFile>>) {
        self.file = file;
        (0..self.all.len())
            .filter_map(|index| u32::try_from(index).ok())
            .for_each(|index| self.note(ScopeId(index)));
    }

    /// Returns all paths by number.
    pub(super) fn all(&self) -> Vec<Arc<str>> {
        self.all.iter().cloned().collect()
    }
}
