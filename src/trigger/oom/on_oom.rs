//! What is done for a failed request.

use std::path::Path;

use memreel_snapshot::words::{OomVerdict, OutOfMemory, Result};

/// What a reel does for a failed request.
pub(crate) struct OnFailure<'a> {
    /// Writes a snapshot to a path.
    pub(crate) save: &'a dyn Fn(&Path) -> Result<()>,
    /// Finds out why the request failed.
    pub(crate) explain: &'a dyn Fn(&OutOfMemory) -> Option<OomVerdict>,
}

/// Whether the snapshot of another failure stands for this one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::trigger) enum SnapshotOf {
    /// In a snapshot of its own, or nowhere yet.
    Own,
    /// In the snapshot of another failure of the same moment.
    Another,
}

impl OnFailure<'_> {
    /// Adds the verdict to the figures, unless it is there.
    pub(in crate::trigger) fn explain(&self, figures: &mut OutOfMemory) {
        if figures.verdict.is_none() {
            figures.verdict = (self.explain)(figures);
        }
    }
}
