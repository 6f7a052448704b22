//! Finds the tapes to watch: those that the command line names, or those of all recorded processes of this user.

#![forbid(unsafe_code)]

use std::{
    collections::BTreeSet,
    fs::{self, File},
    io::{self, ErrorKind},
    os::{fd::AsRawFd, unix::fs::MetadataExt},
    path::{Path, PathBuf},
};

use memreel::Recovered;

use super::{process_root::ProcessRoot, tape_file::tapes_in};
use crate::{exit::Exit, failure::Failure, text::ShownPath};

/// What a word on the command line names.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Source {
    Tape(PathBuf),
    /// The folder of a run.
    Run(PathBuf),
    Process(u32),
}

impl Source {
    pub(crate) fn of(word: &str) -> Result<Source, Failure> {
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
    pub(crate) fn tapes(&self) -> Result<Vec<PathBuf>, Failure> {
        match self {
            Source::Tape(path) => Ok(vec![path.clone()]),
            Source::Run(folder) => match tapes_in(folder) {
                Ok(tapes) => Ok(tapes.into_iter().map(|tape| tape.path).collect()),
                // The folder goes with its run.
                Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
                Err(error) => Err(unreadable(format!("{}: cannot be read: {error}", ShownPath(&folder)))),
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
                "no permission to inspect process {process}: it belongs to another user, or to a more privileged user"
            )
        }
        _ => format!("cannot inspect process {process}: {error}"),
    })
}

/// Returns the tapes of all processes of this user. Processes that may not be read are left out.
pub(crate) fn of_this_user() -> Vec<PathBuf> {
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
    // A process in a container has another root, and its paths name nothing outside of it.
    let root = if has_own_root(process) { format!("/proc/{process}/root") } else { String::new() };
    let here = |path: &str| {
        let path = PathBuf::from(format!("{root}{path}"));
        Readable::of(&path).is_ok_and(|tape| tape.is_tape()).then_some(path)
    };
    Ok(found.into_iter().filter_map(here).collect())
}

/// Whether a process has other mounts or another root than this one.
fn has_own_root(process: u32) -> bool {
    let of = |process: &str| {
        let mounts = fs::read_link(format!("/proc/{process}/ns/mnt")).ok()?;
        let root = fs::metadata(format!("/proc/{process}/root")).ok()?;
        Some((mounts, root.dev(), root.ino()))
    };
    of(&process.to_string()) != of("self")
}

/// A tape that can be read, also one of a container, whose path is in the root of a process and must not lead out of it.
#[derive(Debug)]
pub(crate) struct Readable {
    path: PathBuf,
    /// What the path names in a container.
    _file: Option<File>,
}

impl Readable {
    pub(crate) fn of(path: &Path) -> io::Result<Readable> {
        let inside = || {
            let (process, inside) = path.to_str()?.strip_prefix("/proc/")?.split_once("/root/")?;
            Some((process.parse().ok()?, format!("/{inside}")))
        };
        let Some((process, inside)) = inside() else {
            return Ok(Readable { path: path.to_owned(), _file: None });
        };
        let file = ProcessRoot::of(process)?.file(&inside)?;
        Ok(Readable { path: format!("/proc/self/fd/{}", file.as_raw_fd()).into(), _file: Some(file) })
    }

    /// The path by which it is opened.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    fn is_tape(&self) -> bool {
        Recovered::is_tape(&self.path)
    }
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
    fn the_path_of_a_container_does_not_lead_out_of_it() {
        let folder = tempfile::tempdir().unwrap();
        let (tape, link) = (folder.path().join("a.tape"), folder.path().join("link.tape"));
        fs::write(&tape, "").unwrap();
        std::os::unix::fs::symlink("/proc/1/root/etc/passwd", &link).unwrap();
        let inside =
            |path: &Path| PathBuf::from(format!("/proc/{}/root{}", std::process::id(), path.display()));
        let readable = Readable::of(&inside(&tape)).unwrap();
        assert!(readable.path().starts_with("/proc/self/fd") && readable.path().is_file());
        assert_eq!(Readable::of(&tape).unwrap().path(), tape);
        // From outside this link is one of the system's, and leads anywhere.
        assert!(Readable::of(&inside(&link)).is_err());
    }

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
