//! What opens the files of a command line: the file system, or a question's snapshots in memory.

#![forbid(unsafe_code)]

use std::{path::Path, sync::Arc};

use memreel_snapshot::Snapshot;

use super::opened::{self, Inspected, Opened, is_stdin, name};
use crate::{
    failure::Failure,
    text::{Waiting, clean},
};

/// A snapshot in memory, and the name that the words of a question have for it.
#[derive(Clone, Debug)]
pub struct NamedSnapshot {
    /// The name in the answer, such as the path of its file.
    pub name: String,
    /// The snapshot.
    pub snapshot: Arc<Snapshot>,
}

/// Opens what a command line names.
#[derive(Debug)]
pub(crate) enum Opener {
    /// Every name is a file's.
    Files,
    /// A question: these names are its snapshots, and all others are files.
    Question(Vec<NamedSnapshot>),
}

impl Opener {
    /// Returns whether it answers a question, whose caller does not read standard error.
    pub(crate) fn is_question(&self) -> bool {
        matches!(self, Opener::Question(_))
    }

    /// Returns the in-memory snapshot with that name.
    pub(crate) fn snapshot(&self, path: &Path) -> Option<&Arc<Snapshot>> {
        let Opener::Question(snapshots) = self else { return None };
        let named = snapshots.iter().find(|named| Path::new(&named.name) == path)?;
        Some(&named.snapshot)
    }

    /// Opens a snapshot: a pickle, JSON as viewers load it, a tape or a profile.
    pub(crate) fn open(&self, path: &Path) -> Result<Opened, Failure> {
        // No line on the terminal is needed for what is in memory.
        let _waiting = self.snapshot(path).is_none().then(|| waiting(path));
        self.open_quietly(path)
    }

    /// Like [`Opener::open`], for one of many files that are read at once: without a line on the terminal.
    pub(crate) fn open_quietly(&self, path: &Path) -> Result<Opened, Failure> {
        match self.snapshot(path) {
            Some(snapshot) => Ok(Opened::new(path, snapshot.clone())),
            None => opened::load(path),
        }
    }

    /// Opens two snapshots; a failure names its file.
    ///
    /// The files are read one after the other. Reading both at once takes two thirds of the time, but half as
    /// much memory again, because both files are mapped.
    pub(crate) fn open_both(&self, before: &Path, after: &Path) -> Result<[Opened; 2], Failure> {
        if is_stdin(before) && is_stdin(after) {
            return Err(Failure::usage("standard input holds only one snapshot; give a file for the other"));
        }
        let open_named = |path: &Path| self.open(path).map_err(|failure| failure.of_file(&name(path)));
        Ok([open_named(before)?, open_named(after)?])
    }

    /// Reads a snapshot and checks its bytes. JSON has no findings about its bytes.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(crate) fn inspect(&self, path: &Path) -> Result<Inspected, Failure> {
        if let Some(snapshot) = self.snapshot(path) {
            return Ok((Ok(snapshot.clone()), Vec::new()));
        }
        let _waiting = waiting(path);
        opened::inspect(path)
    }
}

fn waiting(path: &Path) -> Waiting {
    Waiting::new(format!("reading {}", clean(&name(path))))
}
