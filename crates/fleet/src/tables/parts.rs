//! What a table reads of an open file: everything but the events, or the whole snapshot.

use memreel_snapshot::{Snapshot, model::SnapshotSource};

use crate::{
    files::Opened,
    sink::{Sink, Stopped},
};

impl Opened {
    /// Calls `read` with everything but the events in memory.
    pub(crate) fn with_source(
        &self,
        sink: &mut Sink<'_>,
        read: impl FnOnce(&dyn SnapshotSource, &mut Sink<'_>) -> Result<(), Stopped>,
    ) -> Result<(), Stopped> {
        match self {
            Opened::Tape(snapshot) => {
                sink.learn(snapshot);
                read(&**snapshot, sink)
            }
            Opened::Pickle(file) => {
                let lazy = file.lazy().map_err(|error| Stopped::broken(&error))?;
                sink.learn(lazy.head());
                read(&lazy, sink)?;
                lazy.check().map_err(|error| Stopped::broken(&error))
            }
        }
    }

    /// Calls `read` with the whole snapshot in memory.
    pub(crate) fn with_snapshot(
        &self,
        sink: &mut Sink<'_>,
        read: impl FnOnce(&Snapshot, &mut Sink<'_>) -> Result<(), Stopped>,
    ) -> Result<(), Stopped> {
        match self {
            Opened::Tape(snapshot) => {
                sink.learn(snapshot);
                read(snapshot, sink)
            }
            Opened::Pickle(file) => {
                let lazy = file.lazy().map_err(|error| Stopped::broken(&error))?;
                let snapshot = lazy.to_snapshot().map_err(|error| Stopped::broken(&error))?;
                sink.learn(&snapshot);
                read(&snapshot, sink)
            }
        }
    }
}
