//! The recordings that wait to be saved: with very many, new processes wait, and at last go on unrecorded.

#![forbid(unsafe_code)]

use std::{
    collections::BTreeSet,
    path::Path,
    sync::atomic::{AtomicU64, Ordering},
};

use memreel::integrate::Room;

use super::folder::TapeFile;

/// The tapes of ended programs that may wait. Each takes 2 MiB of the disk at least.
pub(super) const MOST: usize = 512;

/// What waits in the folder of a run.
#[derive(Debug)]
pub(super) struct Backlog {
    room: Room,
    n_unrecorded: AtomicU64,
}

impl Backlog {
    pub(super) fn of(folder: &Path) -> Backlog {
        Backlog { room: Room::of(folder), n_unrecorded: AtomicU64::new(0) }
    }

    /// Closes the folder to new tapes while very many of those that were found wait.
    pub(super) fn look(&self, found: &[TapeFile]) {
        if found.len() < MOST || n_waiting(found) < MOST {
            self.n_unrecorded.fetch_add(self.room.open(), Ordering::Relaxed);
        } else {
            // Where it cannot be closed, as on a full disk, tapes cannot grow either.
            let _ = self.room.close();
        }
    }

    /// Returns how many processes went on unrecorded.
    pub(super) fn n_unrecorded(&self) -> u64 {
        self.n_unrecorded.fetch_add(self.room.open(), Ordering::Relaxed);
        self.n_unrecorded.load(Ordering::Relaxed)
    }
}

/// Returns how many tapes are of processes that have ended, or of programs before the last of a process.
fn n_waiting(found: &[TapeFile]) -> usize {
    let processes: BTreeSet<u32> = found.iter().map(|tape| tape.process).collect();
    let lives = |process: &&u32| Path::new("/proc").join(process.to_string()).exists();
    found.len() - processes.iter().filter(lives).count()
}
