//! Where a rewritten snapshot goes: a file, a folder, or standard output.

use std::{
    io::{self, IsTerminal, Write},
    path::{Path, PathBuf},
};

use memreel::{pickle, snapshot::SnapshotSource};

use crate::{exit::Exit, input::Failure};

/// What every command that writes snapshots takes.
#[derive(Debug, clap::Args)]
pub(crate) struct Output {
    /// Where to write; a folder takes files under their own names, `-` is standard output. Without it
    /// nothing is written
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

impl Output {
    /// Whether standard output is taken by a snapshot.
    pub(crate) fn is_stdout(&self) -> bool {
        self.output.as_deref() == Some(Path::new("-"))
    }

    /// Refuses several files that would become one.
    pub(crate) fn fits(&self, n_files: usize) -> Result<(), Failure> {
        match &self.output {
            Some(path) if n_files > 1 && !path.is_dir() => {
                Err(Failure::usage("several files need a folder behind -o, which must be there"))
            }
            _ => Ok(()),
        }
    }

    /// Where a file of that name goes, if anywhere.
    pub(crate) fn path(&self, input: &str) -> Option<PathBuf> {
        let path = self.output.as_ref()?;
        let name = Path::new(input).file_name().unwrap_or("snapshot.pickle".as_ref());
        Some(if path.is_dir() { path.join(name) } else { path.clone() })
    }

    /// Writes a snapshot that was made of the input of that name; says where.
    pub(crate) fn save(
        &self,
        snapshot: &impl SnapshotSource,
        input: &str,
        out: &mut impl Write,
    ) -> Result<Option<PathBuf>, Failure> {
        if self.is_stdout() {
            not_to_a_terminal("a snapshot")?;
            pickle::write(snapshot, &mut *out)?;
            return Ok(None);
        }
        let path = self.path(input);
        if let Some(path) = &path {
            pickle::save(snapshot, path)?;
        }
        Ok(path)
    }
}

/// Refuses to fill a terminal with what is no text.
pub(crate) fn not_to_a_terminal(what: &str) -> Result<(), Failure> {
    if io::stdout().is_terminal() {
        return Err(Failure::usage(format!(
            "{what} is binary and no text for a terminal; say -o FILE, or pipe it on"
        )));
    }
    Ok(())
}

/// Runs what may fail as a whole and tells why it did.
pub(crate) fn told(done: Result<Exit, Failure>) -> io::Result<Exit> {
    match done {
        Ok(exit) => Ok(exit),
        Err(Failure::Told(exit, what)) => {
            eprintln!("memreel: {what}");
            Ok(exit)
        }
        Err(Failure::Write(error)) => Err(error),
    }
}
