//! Limits the recordings that wait to be saved: if there are too many, new processes wait, and finally continue
//! unrecorded.

#![forbid(unsafe_code)]

use std::{
    fs,
    os::unix::fs::MetadataExt,
    path::Path,
    sync::atomic::{AtomicU64, Ordering},
};

use memreel::integrate::FileSpace;

use crate::run::tape_file::TapeFile;

/// The tapes of ended programs that may wait.
pub(super) const MOST: usize = 512;

/// The bytes of the disk that they may take, unless the user has chosen another number. A full ring takes 192 MiB.
const MOST_BYTES: u64 = 16 << 30;

/// What waits in the folder of a run.
#[derive(Debug)]
pub(super) struct Backlog {
    room: FileSpace,
    most_bytes: u64,
    n_unrecorded: AtomicU64,
}

impl Backlog {
    pub(super) fn of(folder: &Path, most_bytes: Option<u64>) -> Backlog {
        let most_bytes = most_bytes.unwrap_or(MOST_BYTES);
        Backlog { room: FileSpace::of(folder), most_bytes, n_unrecorded: AtomicU64::new(0) }
    }

    /// Closes the folder to new tapes while too many of the found ones wait.
    pub(super) fn look(&self, found: &[TapeFile]) {
        if self.is_full(found) {
            // Where it cannot be closed, as on a full disk, tapes cannot grow either.
            let _ = self.room.close();
        } else {
            self.n_unrecorded.fetch_add(self.room.open(), Ordering::Relaxed);
        }
    }

    /// Returns how many processes went on unrecorded.
    pub(super) fn n_unrecorded(&self) -> u64 {
        self.n_unrecorded.fetch_add(self.room.open(), Ordering::Relaxed);
        self.n_unrecorded.load(Ordering::Relaxed)
    }

    fn is_full(&self, found: &[TapeFile]) -> bool {
        let bytes = |tape: &TapeFile| fs::metadata(&tape.path).map_or(0, |of| of.blocks() * 512);
        // Which processes are running is checked only if all tapes together are too many.
        if found.len() < MOST && found.iter().map(bytes).sum::<u64>() < self.most_bytes {
            return false;
        }
        let waiting = waiting(found);
        waiting.len() >= MOST || waiting.into_iter().map(bytes).sum::<u64>() >= self.most_bytes
    }
}

/// Returns the tapes of processes that have ended, and of programs before the last of a process.
fn waiting(found: &[TapeFile]) -> Vec<&TapeFile> {
    let is_last = |at: usize| found.get(at + 1).is_none_or(|next| next.process != found[at].process);
    let waits = |(at, tape): &(usize, &TapeFile)| !is_last(*at) || !is_running(tape.process);
    found.iter().enumerate().filter(waits).map(|(_, tape)| tape).collect()
}

/// Returns whether a process is running: one that has ended remains until its parent waits for it.
fn is_running(process: u32) -> bool {
    let folder = Path::new("/proc").join(process.to_string());
    let Ok(stat) = fs::read_to_string(folder.join("stat")) else { return folder.exists() };
    let state = stat.rsplit_once(')').and_then(|(_, rest)| rest.trim_start().chars().next());
    match state {
        Some('X') => false,
        // Its first thread may have ended before others.
        Some('Z') => fs::read_dir(folder.join("task")).map_or(0, |tasks| tasks.take(2).count()) > 1,
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;
    use crate::run::tape_file::tapes_in;

    #[test]
    fn a_child_that_nothing_waits_for_does_not_run() {
        assert!(is_running(std::process::id()) && !is_running(u32::MAX));
        let mut child = Command::new("true").spawn().unwrap();
        while is_running(child.id()) {
            std::thread::yield_now();
        }
        assert!(Path::new("/proc").join(child.id().to_string()).exists());
        child.wait().unwrap();
    }

    #[test]
    fn what_waits_has_a_number_of_tapes_and_of_bytes() {
        let folder = tempfile::tempdir().unwrap();
        let is_full = |most_bytes| {
            let backlog = Backlog::of(folder.path(), Some(most_bytes));
            backlog.is_full(&tapes_in(folder.path()).unwrap())
        };
        let own = std::process::id();
        fs::write(folder.path().join(format!("{own}-1.tape")), vec![1; 1 << 20]).unwrap();
        assert!(!is_full(1 << 20), "it runs");
        fs::write(folder.path().join(format!("{own}-0.tape")), vec![1; 1 << 20]).unwrap();
        assert!(is_full(1 << 20) && !is_full(3 << 20), "the program before");
        for n in 0..MOST {
            fs::write(folder.path().join(format!("4190000-{n}.tape")), "").unwrap();
        }
        assert!(is_full(3 << 20));
    }
}
