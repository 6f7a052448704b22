//! The place of a new chunk, which is created without the lock of its tape.
#![forbid(unsafe_code)]

use std::sync::Arc;

use super::{
    clock::Clock,
    lines::{Chunk, Lines},
};
use crate::tape::TapeFile;
use memreel_snapshot::words::DeviceId;

/// The place of a new chunk.
#[derive(Debug)]
pub(super) struct NewPlace {
    /// `None` for a chunk in memory.
    pub(super) file: Option<(Arc<TapeFile>, DeviceId)>,
    /// How many events the tape had dropped.
    pub(super) n_dropped: u64,
}

impl NewPlace {
    /// Returns an empty chunk; it is in memory if the file has no room.
    pub(super) fn chunk(self, clock: &Clock) -> Arc<Chunk> {
        if let Some((file, device)) = self.file
            && let Some(lines) = Lines::in_file(&file, device, clock, self.n_dropped)
        {
            return Arc::new(Chunk::of(lines));
        }
        Arc::default()
    }
}
