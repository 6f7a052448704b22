//! The response to a failed request.

use std::path::Path;

use memreel_snapshot::words::{OomVerdict, OutOfMemory, Result};

/// The actions of a reel at a failed request.
pub(crate) struct OnFailure<'a> {
    /// Writes a snapshot to a path.
    pub(crate) save: &'a dyn Fn(&Path) -> Result<()>,
    /// Finds out why the request failed.
    pub(crate) explain: &'a dyn Fn(&OutOfMemory) -> Option<OomVerdict>,
}

/// Where a failure's snapshot is: its own, or one of another failure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::trigger) enum SnapshotOf {
    /// In a snapshot of its own, or nowhere yet.
    Own,
    /// In the snapshot of another failure at the same moment.
    Another,
}

impl OnFailure<'_> {
    /// Adds the verdict to the figures, unless they have one.
    pub(in crate::trigger) fn explain(&self, figures: &mut OutOfMemory) {
        if figures.verdict.is_none() {
            figures.verdict = (self.explain)(figures);
        }
    }
}
