//! Reserves the name of a tape in the folder of a run, before a process creates the tape.
#![forbid(unsafe_code)]

use std::{
    fs::OpenOptions,
    io::ErrorKind,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    process,
};

use crate::process::rank::rank;

/// Reserves a name for a tape of this process in a folder, by creating an empty file: a process that runs another
/// program keeps its PID, and another process may have it in another namespace. `None` if 10,000 names are taken.
#[must_use]
pub fn take_tape_name(folder: impl AsRef<Path>) -> Option<PathBuf> {
    let rank = rank().map_or_else(String::new, |rank| format!("-rank{rank}"));
    let path = |n: u32| folder.as_ref().join(format!("{}-{n}{rank}.tape", process::id()));
    let is_new = |path: &PathBuf| {
        let taken = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
        // Any other error is the tape's, which reports it.
        !taken.is_err_and(|error| error.kind() == ErrorKind::AlreadyExists)
    };
    (0..10_000).map(path).find(is_new)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two processes with the same PID take their names at the same time.
    #[test]
    fn a_name_is_taken_once() {
        let folder = tempfile::tempdir().unwrap();
        let names = [(); 3].map(|()| take_tape_name(folder.path()).unwrap());
        assert!(names[0] != names[1] && names[1] != names[2] && names[2] != names[0], "{names:?}");
        assert!(names.iter().all(|path| path.is_file()), "{names:?}");
        assert!(take_tape_name(folder.path().join("gone")).is_some());
    }
}
