//! A file that gets its name once it is complete.

use std::{
    ffi::{OsStr, OsString},
    fs::File,
    io,
    path::{Path, PathBuf},
    process,
    sync::atomic::{AtomicU64, Ordering},
};

use crate::trigger::files::pattern;
use memreel_snapshot::{
    place::Folder,
    words::{Error, Result},
};

const CANNOT_CREATE: &str = "cannot create the folder of the snapshot:";
const CANNOT_NAME: &str = "cannot give the file its name:";

/// A file that is being written, and that is removed with this value unless it gets its name. The folder is open, so
/// later changes to its path have no effect.
#[derive(Debug)]
pub(in crate::trigger) struct WholeFile<'p> {
    /// The path that the file will have.
    path: &'p Path,
    name: OsString,
    pub(in crate::trigger) folder: Folder,
    temporary: String,
}

impl<'p> WholeFile<'p> {
    /// Starts a file that no other thread or process has. Creates its folder if it is missing.
    pub(in crate::trigger) fn begin(path: &'p Path) -> Result<WholeFile<'p>> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let next = NEXT.fetch_add(1, Ordering::Relaxed);
        let parent = || path.parent().unwrap_or(Path::new("/"));
        let (folder, name) =
            Folder::above(path).map_err(|error| Error::io(CANNOT_CREATE, parent(), error))?;
        Ok(WholeFile { path, name, folder, temporary: format!(".memreel-{}-{next}.dump.tmp", process::id()) })
    }

    /// Returns the path at which it is written.
    pub(in crate::trigger) fn temporary(&self) -> PathBuf {
        self.path.with_file_name(&self.temporary)
    }

    /// Creates the file.
    pub(in crate::trigger) fn create(&self) -> io::Result<File> {
        self.folder.create(&self.temporary, 0o666)
    }

    /// Gives the file its name, with a number if the name is taken, and returns the path.
    pub(in crate::trigger) fn named(self) -> Result<PathBuf> {
        let (mut wanted, plain) = (self.name.clone(), self.name.to_string_lossy().into_owned());
        for number in 1.. {
            match self.folder.rename_new(&self.temporary, &wanted) {
                Ok(()) => return Ok(self.path.with_file_name(wanted)),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(self.cannot_name(&wanted, error)),
            }
            wanted = pattern::numbered(&plain, number).into();
        }
        Err(self.cannot_name(&wanted, io::ErrorKind::AlreadyExists.into()))
    }

    /// Gives the file its name, replacing any file that has it.
    pub(in crate::trigger) fn replaces(self) -> Result<()> {
        let renamed = self.folder.rename(&self.temporary, &self.name);
        renamed.map_err(|error| self.cannot_name(&self.name, error))
    }

    fn cannot_name(&self, name: &OsStr, error: io::Error) -> Error {
        Error::io(CANNOT_NAME, &self.path.with_file_name(name), error)
    }
}

impl Drop for WholeFile<'_> {
    fn drop(&mut self) {
        // A file that got its name is no longer there.
        let _ = self.folder.remove(&self.temporary);
    }
}
