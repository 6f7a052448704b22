//! The file of a tape, whose descriptor the program may close.

use std::{
    fs::{File, OpenOptions},
    io, mem,
    os::{
        fd::{AsRawFd, FromRawFd},
        unix::fs::MetadataExt,
    },
    path::Path,
};

use rustix::process::{Resource, getrlimit};

use crate::process::uncancelled::Uncancelled;

/// The file. A program may close descriptors that it did not open, and then open its own files under their numbers. So
/// each use first checks which file the descriptor refers to.
#[derive(Debug)]
pub(super) struct Descriptor {
    file: Option<File>,
    /// The numbers of the file system and of the file in it.
    identity: (u64, u64),
}

impl Descriptor {
    fn new(file: File) -> io::Result<Descriptor> {
        let identity = identity(&file)?;
        Ok(Descriptor { file: Some(file), identity })
    }

    /// Returns the file of this process's tape. It remains open, because a program may forbid itself to open files;
    /// unless the program has few descriptors, all of which it may need.
    pub(super) fn own(file: File) -> io::Result<Descriptor> {
        if most_files() < FEW { Descriptor::closed(&file) } else { Descriptor::new(file) }
    }

    /// Returns the file as one that is opened for each use.
    pub(super) fn closed(file: &File) -> io::Result<Descriptor> {
        Ok(Descriptor { file: None, identity: identity(file)? })
    }

    /// Returns the file if the descriptor still refers to it.
    fn intact(&self) -> Option<&File> {
        self.file.as_ref().filter(|file| identity(file).is_ok_and(|found| found == self.identity))
    }

    /// Calls `work` with the file, opening it if it is not open, or if the program closed it.
    pub(super) fn with<T>(&self, path: &Path, work: impl FnOnce(&File) -> io::Result<T>) -> io::Result<T> {
        if let Some(file) = self.intact() {
            return work(file);
        }
        let again = not_standard(OpenOptions::new().read(true).write(true).open(path)?)?;
        if identity(&again)? != self.identity {
            return Err(io::Error::other("another file has its name"));
        }
        work(&again)
    }
}

impl Drop for Descriptor {
    /// A descriptor that now belongs to the program remains open.
    fn drop(&mut self) {
        // Closing a file is a cancellation point, and this may be inside the program's `malloc`.
        let _uncancelled = Uncancelled::begin();
        match self.intact().is_some() {
            true => drop(self.file.take()),
            false => mem::forget(self.file.take()),
        }
    }
}

fn identity(file: &File) -> io::Result<(u64, u64)> {
    let found = file.metadata()?;
    Ok((found.dev(), found.ino()))
}

/// Returns the file on a descriptor other than standard input, output or error: a program may have closed these, and
/// what it writes there must not reach the tape.
pub(super) fn not_standard(file: File) -> io::Result<File> {
    if file.as_raw_fd() > 2 { Ok(file) } else { at_or_above(&file, 3) }
}

/// Below this limit, each descriptor matters.
const FEW: u64 = 64;

/// Descriptors from this number on do not fit into a set for `select`.
const MOST: u64 = 1024;

/// Returns the limit on descriptors, or [`MOST`].
fn most_files() -> u64 {
    getrlimit(Resource::Nofile).current.unwrap_or(MOST).min(MOST)
}

/// Returns the file on a high descriptor, if there is one. A script writes to low descriptors by number, and what it
/// writes to one that it has closed, which is an error in the script, must not reach the tape. Its own files also get
/// the lowest numbers.
pub(super) fn out_of_the_way(file: File) -> io::Result<File> {
    at_or_above(&file, i32::try_from(most_files() / 4 * 3).unwrap_or(3)).or_else(|_| not_standard(file))
}

fn at_or_above(file: &File, lowest: i32) -> io::Result<File> {
    // SAFETY: the descriptor is open; the call makes another one, which nothing else has.
    let again = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_DUPFD_CLOEXEC, lowest) };
    if again < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: as above.
    Ok(unsafe { File::from_raw_fd(again) })
}
