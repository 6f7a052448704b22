//! Adds to a recording the events that its options left out and that viewers need.
//!
//! Size filters and sampling leave out events of blocks that are nevertheless in the segments, and `skip_actions`
//! leaves out what created or ended them. A viewer that undoes the events then finds a block whose segment does not
//! exist yet, and throws (`docs/snapshot-format.md` 3.5).

use std::ops::Deref;

use memreel_snapshot::{
    model::{Snapshot, SnapshotSource},
    rewrite::fix,
};

use super::TapeSnapshot;

/// A collected snapshot, in a form that viewers can show.
///
/// If options left out events while it was recorded, it has them without frames at suitable places, as [`fix`] adds
/// them: the `alloc` of a block in use that has no events comes after the last event that had its memory. Such a
/// recording is in memory, with 48 bytes for each event; otherwise the events remain where they are.
///
/// ```
/// use memreel::{Reel, pickle, recorder::Recording, rewrite::Completed, snapshot};
///
/// let reel = Reel::builder().history(Recording::all().min_size(1 << 20)).build()?;
/// let _small = reel.alloc(1000)?;
/// let recorded = snapshot::collect_lazily(reel.recorder(), reel.allocators(), Default::default());
/// let completed = Completed::new(recorded).into_snapshot();
/// assert_eq!(completed.device_traces[0].len(), 2, "the segment, and the block that was left out");
/// # Ok::<(), memreel::Error>(())
/// ```
#[derive(Debug)]
pub struct Completed(Form);

#[derive(Debug)]
enum Form {
    Tapes(Box<TapeSnapshot>),
    InMemory(Box<Snapshot>),
}

impl Completed {
    /// Adds the events that options left out.
    #[must_use]
    pub fn new(recorded: TapeSnapshot) -> Completed {
        Completed(match recorded.has_gaps() {
            false => Form::Tapes(Box::new(recorded)),
            true => Form::InMemory(Box::new(fix(recorded.into_snapshot()).snapshot)),
        })
    }

    /// Returns the snapshot with all its events.
    #[must_use]
    pub fn into_snapshot(self) -> Snapshot {
        match self.0 {
            Form::Tapes(recorded) => recorded.into_snapshot(),
            Form::InMemory(snapshot) => *snapshot,
        }
    }
}

impl Deref for Completed {
    type Target = dyn SnapshotSource;

    fn deref(&self) -> &Self::Target {
        match &self.0 {
            Form::Tapes(recorded) => &**recorded,
            Form::InMemory(snapshot) => &**snapshot,
        }
    }
}
