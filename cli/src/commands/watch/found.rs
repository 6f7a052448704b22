//! Which tapes are watched: those that the command line names, or those of all recorded processes of this user.

#![forbid(unsafe_code)]

use std::{
    collections::BTreeSet,
    fs,
    io::{self, ErrorKind},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use memreel::Recovered;

use super::super::record::tapes_in;
use crate::{exit::Exit, failure::Failure};

/// What a word of the command line names.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Source {
    Tape(PathBuf),
    /// The folder of a run.
    Run(PathBuf),
    Process(u32),
}

impl Source {
    pub(super) fn of(word: &str) -> Result<Source, Failure> {
        if let Ok(process) = word.parse() {
            return Ok(Source::Process(process));
        }
        let path = PathBuf::from(word);
        match path.metadata() {
            Ok(found) if found.is_dir() => Ok(Source::Run(path)),
            Ok(_) => Ok(Source::Tape(path)),
            Err(error) => Err(unreadable(format!("{word}: cannot be read: {error}"))),
        }
    }

    /// Returns the tapes that there are now.
    pub(super) fn tapes(&self) -> Result<Vec<PathBuf>, Failure> {
        match self {
            Source::Tape(path) => Ok(vec![path.clone()]),
            Source::Run(folder) => match tapes_in(folder) {
                Ok(tapes) => Ok(tapes.into_iter().map(|tape| tape.path).collect()),
                // The folder goes with its run.
                Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
                Err(error) => Err(unreadable(format!("{}: cannot be read: {error}", folder.display()))),
            },
            Source::Process(process) => tapes_of(*process).map_err(|error| refused(*process, &error)),
        }
    }
}

fn unreadable(what: String) -> Failure {
    Failure::Message(Exit::Unreadable, what)
}

fn refused(process: u32, error: &io::Error) -> Failure {
    unreadable(match error.kind() {
        ErrorKind::NotFound => format!("there is no process {process}"),
        ErrorKind::PermissionDenied => {
            format!(
                "process {process} may not be looked at: it is of another user, or of a user with more rights"
            )
        }
        _ => format!("process {process} cannot be looked at: {error}"),
    })
}

/// Returns the tapes of all processes of this user. Processes that may not be looked at are left out.
pub(super) fn of_this_user() -> Vec<PathBuf> {
    let Ok(own) = fs::metadata("/proc/self") else { return Vec::new() };
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let mut all = BTreeSet::new();
    for entry in entries.flatten() {
        let Some(process) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        if entry.metadata().is_ok_and(|found| found.uid() == own.uid()) {
            all.extend(tapes_of(process).unwrap_or_default());
        }
    }
    all.into_iter().collect()
}

/// Returns the tapes that a process has mapped.
fn tapes_of(process: u32) -> io::Result<Vec<PathBuf>> {
    let maps = fs::read(format!("/proc/{process}/maps"))?;
    let maps = String::from_utf8_lossy(&maps);
    let mut found: BTreeSet<&str> = BTreeSet::new();
    found.extend(maps.lines().filter_map(mapped_tape));
    let here = |path: &str| {
        let inside = PathBuf::from(format!("/proc/{process}/root{path}"));
        // A process in a container has another root.
        [PathBuf::from(path), inside].into_iter().find(|path| Recovered::is_tape(path))
    };
    Ok(found.into_iter().filter_map(here).collect())
}

/// Returns the path of a line of `maps`, if it is that of a tape.
fn mapped_tape(line: &str) -> Option<&str> {
    let path = &line[line.find('/')?..];
    Path::new(path).extension().is_some_and(|end| end == "tape").then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tapes_are_found_among_mappings() {
        let of = |path: &str| format!("7f00-7f01 rw-s 00000000 08:01 12                         {path}");
        assert_eq!(mapped_tape(&of("/a b/1-0.tape")), Some("/a b/1-0.tape"));
        for other in ["/lib/libc.so.6", "[heap]", "", "/a/1-0.tape (deleted)"] {
            assert_eq!(mapped_tape(&of(other)), None, "{other}");
        }
        assert!(matches!(Source::of("4711"), Ok(Source::Process(4711))));
        assert!(Source::of("/there/is/none").is_err());
    }
}
