//! The folder of a run, where each process has its tape.

#![forbid(unsafe_code)]

use std::{
    fs::{self, DirBuilder},
    io::{self, Write},
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
    process,
};

use rustix::{
    fs::{Mode, OFlags, fstat, open, openat},
    process::geteuid,
};

use super::place;
use crate::failure::Failure;

/// Tells git to leave the folder alone.
const IGNORED: &str = ".gitignore";

/// The folder of a run.
#[derive(Debug)]
pub(super) struct Folder(PathBuf);

/// A tape in the folder: `1234-0-rank3.tape`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(in crate::commands) struct TapeFile {
    pub(in crate::commands) process: u32,
    /// How many programs the process ran before.
    pub(in crate::commands) nth: u32,
    pub(in crate::commands) rank: Option<String>,
    pub(in crate::commands) path: PathBuf,
}

impl Folder {
    /// Creates the folder of this run, beside the snapshots in `output` or elsewhere (`place.rs`), or below `asked`.
    pub(super) fn create(output: &Path, asked: Option<&Path>) -> Result<Folder, Failure> {
        let full =
            |folder: &Path| fs::canonicalize(folder).map_err(|error| Failure::unwritable(folder, error));
        let output = full(output)?;
        if let Some(asked) = asked {
            return Folder::below(&full(asked)?);
        }
        let places = place::places(&output);
        let mut others = places.iter().filter(|place| **place != output && place::may_write(&output));
        let elsewhere = others.find_map(|place| Folder::below(place).ok());
        elsewhere.map_or_else(|| Folder::below(&output), Ok)
    }

    fn below(parent: &Path) -> Result<Folder, Failure> {
        let unwritable = |error: io::Error| {
            let advice = "-o names another folder, as in -o ~/snapshot.pickle";
            Failure::unwritable(parent, format!("{error}; {advice}"))
        };
        let path = parent.join(format!(".memreel-record-{}", process::id()));
        // Only the user may read the tapes: they have paths, and names of functions and scopes.
        let mut private = DirBuilder::new();
        private.mode(0o700);
        let path = match private.create(&path) {
            Ok(()) => path,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                // Of an earlier process with this number.
                let path = parent.join(format!(".memreel-record-{}-{}", process::id(), nanoseconds()));
                private.create(&path).map_err(unwritable)?;
                path
            }
            Err(error) => return Err(unwritable(error)),
        };
        // So that `git status` is what it is without the folder. Without room for it, git shows the folder.
        let _ = ignore(&path);
        Ok(Folder(path))
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    /// Removes the folder, unless something is in it.
    pub(super) fn remove_if_empty(&self) {
        let only_ours =
            |mut entries: fs::ReadDir| entries.all(|entry| entry.is_ok_and(|of| of.file_name() == IGNORED));
        if fs::read_dir(&self.0).is_ok_and(only_ours) {
            let _ = fs::remove_file(self.0.join(IGNORED));
        }
        // What is in it stays: a tape that was kept, or one that could not be read.
        let _ = fs::remove_dir(&self.0);
    }
}

/// Creates the file for git in a new folder, by descriptor: an exchange of the folder leads no write elsewhere.
fn ignore(folder: &Path) -> io::Result<()> {
    let own =
        open(folder, OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
    let found = fstat(&own)?;
    if found.st_uid != geteuid().as_raw() || found.st_mode & 0o077 != 0 {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    fs::File::from(openat(own, IGNORED, flags, Mode::from_raw_mode(0o666))?).write_all(b"*\n")
}

/// Returns the tapes in the folder of a run, by process.
pub(in crate::commands) fn tapes_in(folder: &Path) -> io::Result<Vec<TapeFile>> {
    let mut tapes = Vec::new();
    for entry in fs::read_dir(folder)? {
        tapes.extend(TapeFile::of(&entry?.path()));
    }
    tapes.sort();
    Ok(tapes)
}

impl TapeFile {
    /// Reads the name of a tape.
    pub(in crate::commands) fn of(path: &Path) -> Option<TapeFile> {
        let name = path.file_name()?.to_str()?.strip_suffix(".tape")?;
        let mut parts = name.split('-');
        let (process, nth) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
        let rank = parts.next().and_then(|part| part.strip_prefix("rank")).map(str::to_owned);
        Some(TapeFile { process, nth, rank, path: path.to_owned() })
    }
}

fn nanoseconds() -> u128 {
    std::time::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_nanos())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_written_through_what_others_put_there() {
        use std::os::unix::fs::{PermissionsExt, symlink};

        let all = tempfile::tempdir().unwrap();
        let [victim, own, link] = ["victim", "own", "link"].map(|name| all.path().join(name));
        fs::write(&victim, "keys").unwrap();
        let open_to = |mode| fs::set_permissions(&own, fs::Permissions::from_mode(mode)).unwrap();
        fs::create_dir(&own).unwrap();
        open_to(0o700);
        symlink(&own, &link).unwrap();
        assert!(ignore(&link).is_err(), "a link in place of the folder");
        symlink(&victim, own.join(IGNORED)).unwrap();
        assert!(ignore(&own).is_err(), "a link in the folder");
        assert_eq!(fs::read_to_string(&victim).unwrap(), "keys");
        fs::remove_file(own.join(IGNORED)).unwrap();
        open_to(0o755);
        assert!(ignore(&own).is_err(), "a folder that is not this one");
        open_to(0o700);
        ignore(&own).unwrap();
        assert_eq!(fs::read_to_string(own.join(IGNORED)).unwrap(), "*\n");
    }

    #[test]
    fn the_name_of_a_tape_has_process_program_and_rank() {
        let of = |name: &str| TapeFile::of(Path::new(name)).map(|tape| (tape.process, tape.nth, tape.rank));
        assert_eq!(of("/x/12-0.tape"), Some((12, 0, None)));
        assert_eq!(of("/x/12-3-rank7.tape"), Some((12, 3, Some("7".into()))));
        assert_eq!(of("/x/12-torch.pickle"), None);
        assert_eq!(of("/x/twelve-0.tape"), None);
    }
}
