//! The option `-o`: where a rewritten snapshot goes; it is never replaced by anything else.

#![forbid(unsafe_code)]

use std::{
    fs::{self, File},
    io::{self, BufWriter, IsTerminal, Read, Write},
    path::{Path, PathBuf},
};

use memreel::Recovered;
use memreel_snapshot::{model::SnapshotSource, pickle, place::open_plain};

use crate::{failure::Failure, text::ShownPath};

/// The first byte of a pickle of protocol 2 or later, which every snapshot has.
const PICKLE: u8 = 0x80;

/// Returns an error if a file is one of the inputs, a snapshot or a tape, which something else would replace: a name
/// may have been forgotten.
pub(crate) fn replaces_no_snapshot<'a>(
    path: &Path,
    inputs: impl IntoIterator<Item = &'a PathBuf>,
) -> Result<(), Failure> {
    let is_input = |input: &PathBuf| {
        fs::canonicalize(input).is_ok_and(|input| fs::canonicalize(path).is_ok_and(|path| path == input))
    };
    let begins_as_pickle = || {
        let mut first = [0];
        open_plain(path).and_then(|mut file| file.read_exact(&mut first)).is_ok() && first == [PICKLE]
    };
    // A pipe or a device is not read.
    if !path.is_file()
        || !inputs.into_iter().any(is_input) && !begins_as_pickle() && !Recovered::is_tape(path)
    {
        return Ok(());
    }
    let path = ShownPath(&path);
    Err(Failure::usage(format!("{path} is a snapshot and would be overwritten; give another file")))
}

/// Writes a file that is not a snapshot, completely or not at all; a pipe or a device is written directly.
pub(crate) fn replace(
    path: &Path,
    fill: impl FnOnce(&mut BufWriter<&mut File>) -> io::Result<()>,
) -> Result<(), Failure> {
    let replaced = pickle::replace(path, |file| {
        let mut out = BufWriter::new(file);
        fill(&mut out)?;
        out.flush()
    });
    replaced.map_err(|error| Failure::unwritable(path, error))
}

/// The option of every command that writes snapshots.
#[derive(Debug, clap::Args)]
pub(crate) struct Output {
    /// Write to this file, or to this folder under the input's name; `-` is standard output. Without
    /// this option, nothing is written
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

impl Output {
    /// Returns whether the snapshot goes to standard output.
    pub(crate) fn is_stdout(&self) -> bool {
        self.output.as_deref() == Some(Path::new("-"))
    }

    /// Checks that several inputs do not go to one file.
    pub(crate) fn fits(&self, n_files: usize) -> Result<(), Failure> {
        match &self.output {
            Some(path) if n_files > 1 && !path.is_dir() => Err(needs_folder()),
            _ => Ok(()),
        }
    }

    /// Returns the path of the output for the input with that name, if there is one.
    pub(crate) fn path(&self, input: &str) -> Option<PathBuf> {
        let path = self.output.as_ref()?;
        let name = Path::new(input).file_name().unwrap_or("snapshot.pickle".as_ref());
        Some(if path.is_dir() { path.join(name) } else { path.clone() })
    }

    /// Writes the snapshot for the input with that name; returns the file's path.
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

/// Returns the error for several inputs whose -o does not name a folder.
pub(crate) fn needs_folder() -> Failure {
    Failure::usage("with several files, -o must be an existing folder")
}

/// Returns an error instead of writing binary data to a terminal.
pub(crate) fn not_to_a_terminal(what: &str) -> Result<(), Failure> {
    if io::stdout().is_terminal() {
        return Err(Failure::usage(format!(
            "{what} is binary and cannot be shown on a terminal; use -o FILE, or pipe it to another program"
        )));
    }
    Ok(())
}
