//! A pickle or a tape that is open, in a file of this machine.

use std::{io::Write, path::PathBuf};

use datafusion::error::Result;
use futures::TryStreamExt;
use memreel::Recovered;
use memreel_snapshot::{
    Snapshot,
    pickle::{self, OpenFile},
};
use object_store::ObjectStoreExt;
use tempfile::NamedTempFile;

use super::file::SourceFile;

/// A file of this machine with the bytes of a source: the source itself, or a copy of what a store has.
#[derive(Debug)]
pub(crate) enum Fetched {
    Here(PathBuf),
    Copy(NamedTempFile),
}

impl Fetched {
    /// Copies what is in another store to a temporary file, which goes away with the value.
    pub(crate) async fn of(source: &SourceFile) -> Result<Fetched> {
        if source.is_local {
            return Ok(Fetched::Here(PathBuf::from(&source.file)));
        }
        let mut copy = NamedTempFile::new()?;
        let mut bytes = source.store.get(&source.path).await?.into_stream();
        while let Some(part) = bytes.try_next().await? {
            copy.write_all(&part)?;
        }
        copy.flush()?;
        Ok(Fetched::Copy(copy))
    }

    fn path(&self) -> &std::path::Path {
        match self {
            Fetched::Here(path) => path,
            Fetched::Copy(copy) => copy.path(),
        }
    }
}

/// A pickle or a tape.
pub(crate) enum Opened {
    /// The bytes of a pickle, of which nothing is decoded yet.
    Pickle(OpenFile),
    /// A tape, which is a snapshot in memory.
    Tape(Box<Snapshot>),
}

impl Opened {
    /// Opens a file, and returns with it what a tape lacks.
    pub(crate) fn new(fetched: &Fetched) -> Result<(Opened, Vec<String>), memreel_snapshot::Error> {
        let path = fetched.path();
        if !Recovered::is_tape(path) {
            return Ok((Opened::Pickle(pickle::open(path)?), Vec::new()));
        }
        let tape = Recovered::read(path)?;
        Ok((Opened::Tape(Box::new(tape.snapshot())), tape.problems().to_vec()))
    }
}
