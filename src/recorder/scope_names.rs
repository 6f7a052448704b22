//! The paths of a recorder's scopes by number, and the annotations of their starts and ends.
#![forbid(unsafe_code)]

use std::sync::Arc;

use indexmap::IndexSet;
use rustc_hash::FxBuildHasher;

use super::clock::Ticks;
use crate::event::DeviceId;

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

/// A recorder's table of scope paths, by number.
#[derive(Debug)]
pub(super) struct ScopeNames(IndexSet<Arc<str>, FxBuildHasher>);

impl Default for ScopeNames {
    fn default() -> Self {
        ScopeNames(std::iter::once("".into()).collect())
    }
}

impl ScopeNames {
    /// Returns the number of the path of `name` inside `parent`, adding it if it is new.
    pub(super) fn intern(&mut self, parent: ScopeId, name: &str) -> ScopeId {
        let path: Arc<str> = match self.0.get_index(parent.0 as usize) {
            Some(parent) if !parent.is_empty() => format!("{parent}/{name}").into(),
            _ => name.into(),
        };
        let (index, _) = self.0.insert_full(path);
        ScopeId(u32::try_from(index).unwrap_or_default())
    }

    /// Returns all paths by number.
    pub(super) fn all(&self) -> Vec<Arc<str>> {
        self.0.iter().cloned().collect()
    }
}
