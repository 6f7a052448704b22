//! A snapshot without what [`Slim`] leaves out; the rest stays as it was.

use std::{fmt, io, ops::Range};

use super::{frames::Reframed, slim::Slim, small::Large, window::Cut};
use crate::{
    error::Result,
    event::DeviceId,
    snapshot::{Snapshot, SnapshotSource, TraceEntry, UseCounts, collected},
};

impl Slim {
    /// Leaves it out.
    ///
    /// # Errors
    /// [`is_misuse`](crate::Error::is_misuse) if the window names a scope or a
    /// device that is not there.
    pub fn apply(&self, snapshot: Snapshot) -> Result<Snapshot> {
        if *self == Slim::default() {
            return Ok(snapshot);
        }
        Ok(collected(&self.over(&snapshot)?))
    }

    /// What is left of a document, whose events are read and changed one by one as they are looked at.
    ///
    /// It takes memory for segments and stacks, for the segments' events behind a window, and for each
    /// address that has events behind it; not for all events. The document is gone through before this
    /// returns: once for other stacks, once for a size, once or twice for a window.
    ///
    /// ```
    /// use memreel::{pickle, rewrite::Slim, snapshot::{SnapshotSource, Snapshot}};
    /// # let bytes = pickle::to_vec(&Snapshot::default());
    /// let lazy = pickle::lazy(&bytes)?;
    /// let mut slim = Slim::default();
    /// slim.depth = Some(8);
    /// let small = slim.over(&lazy)?;
    /// pickle::write(&small, std::io::sink())?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Slim::apply`].
    pub fn over<'a>(&self, document: &'a dyn SnapshotSource) -> Result<Slimmed<'a>> {
        let mut slimmed: Box<dyn SnapshotSource + 'a> = Box::new(document);
        if let Some(window) = &self.window {
            slimmed = Box::new(Cut::of(slimmed, window)?);
        }
        if self.min_bytes > 0 {
            slimmed = Box::new(Large::of(slimmed, self.min_bytes));
        }
        let is_same = self.depth.is_none() && self.drop_paths.is_empty() && self.strip_prefixes.is_empty();
        if !is_same || self.anonymise {
            slimmed = Box::new(Reframed::of(slimmed, self));
        }
        Ok(Slimmed(slimmed))
    }
}

/// What [`Slim::over`] leaves of a document.
pub struct Slimmed<'a>(Box<dyn SnapshotSource + 'a>);

impl fmt::Debug for Slimmed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Slimmed").field(self.0.head()).finish()
    }
}

impl SnapshotSource for Slimmed<'_> {
    fn head(&self) -> &Snapshot {
        self.0.head()
    }

    fn n_traces(&self) -> usize {
        self.0.n_traces()
    }

    fn for_each_entry(&self, device: DeviceId, look: &mut dyn FnMut(&TraceEntry)) {
        self.0.for_each_entry(device, look);
    }

    fn n_entries(&self, device: DeviceId) -> usize {
        self.0.n_entries(device)
    }

    fn for_each_entry_in(&self, device: DeviceId, range: Range<usize>, look: &mut dyn FnMut(&TraceEntry)) {
        self.0.for_each_entry_in(device, range, look);
    }

    fn use_counts(&self) -> UseCounts {
        self.0.use_counts()
    }

    fn check(&self) -> io::Result<()> {
        self.0.check()
    }
}
