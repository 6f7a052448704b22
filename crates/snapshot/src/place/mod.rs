//! Opens files, and writes them in an open folder, each completely or not at all.
//!
//! Each part of a path is resolved once. In a folder that other users may write into, a link is followed only if its
//! owner is the caller or the owner of the folder: another user may have put it there.
#![forbid(unsafe_code)]

#[cfg(unix)]
mod by_descriptor;
#[cfg(not(unix))]
mod by_path;
mod plain;
mod replaced;

#[cfg(target_os = "linux")]
use std::{
    ffi::{OsStr, OsString},
    path::PathBuf,
};
use std::{fs::File, io, path::Path};

#[cfg(unix)]
use by_descriptor as system;
#[cfg(not(unix))]
use by_path as system;

pub(crate) use plain::open_at_once;
pub use plain::{keep_to, open_plain, open_plain_or_pipe};
pub(crate) use replaced::{Durability, Target, replace};
pub(crate) use system::{Found, Place};

/// An open folder: later changes to its path have no effect.
///
/// ```
/// use std::io::Write;
///
/// use memreel_snapshot::place::Folder;
///
/// let above = tempfile::tempdir()?;
/// let folder = Folder::make(above.path().join("new/pages"))?;
/// folder.replace("page.1", |file| file.write_all(b"text"))?;
/// assert_eq!(std::fs::read(above.path().join("new/pages/page.1"))?, b"text");
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Folder(system::Folder);

impl Folder {
    /// Opens an existing folder.
    ///
    /// # Errors
    /// The system's errors, and [`io::ErrorKind::PermissionDenied`] for a link that another user may have put there.
    pub fn open(path: impl AsRef<Path>) -> io::Result<Folder> {
        system::Folder::open(path.as_ref()).map(Folder)
    }

    /// Opens a folder, creating it and its parents if they are missing.
    ///
    /// # Errors
    /// The errors of [`Folder::open`].
    pub fn make(path: impl AsRef<Path>) -> io::Result<Folder> {
        system::Folder::make(path.as_ref()).map(Folder)
    }

    /// Writes a file of this name under a temporary name, completely or not at all. A pipe or a device is written
    /// directly.
    ///
    /// # Errors
    /// The errors of the system or of `fill`. An earlier file of that name is then unchanged.
    pub fn replace(
        &self,
        name: impl AsRef<Path>,
        fill: impl FnOnce(&mut File) -> io::Result<()>,
    ) -> io::Result<()> {
        replace(&self.0.place(name.as_ref())?, (Durability::Unsynced, Target::Anything), fill)
    }
}

/// For programs that record.
#[cfg(target_os = "linux")]
impl Folder {
    /// Creates a folder of this name that only its user may enter.
    ///
    /// # Errors
    /// The system's errors, also if the name is taken.
    pub fn private(&self, name: impl AsRef<OsStr>) -> io::Result<Folder> {
        self.0.private(name.as_ref()).map(Folder)
    }

    /// Opens the folder of a path, creating it if it is missing. Returns it with the last name of the path.
    ///
    /// # Errors
    /// The errors of [`Folder::make`], and [`io::ErrorKind::InvalidInput`] for a path without a name.
    pub fn above(path: impl AsRef<Path>) -> io::Result<(Folder, OsString)> {
        let path = path.as_ref();
        let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?.to_owned();
        let above = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        Ok((Folder::make(above.unwrap_or(Path::new(".")))?, name))
    }

    /// Creates a file under an unused name, with these permissions.
    ///
    /// # Errors
    /// The system's errors.
    pub fn create(&self, name: impl AsRef<OsStr>, mode: u32) -> io::Result<File> {
        self.0.create(name.as_ref(), mode)
    }

    /// Opens an empty file with which this user has reserved the name; `None` if there is none.
    ///
    /// # Errors
    /// The system's errors.
    pub fn taken(&self, name: impl AsRef<OsStr>) -> io::Result<Option<File>> {
        self.0.taken(name.as_ref())
    }

    /// Renames whatever has a name, unless it is a folder.
    ///
    /// # Errors
    /// The system's errors.
    pub fn set_aside(&self, name: impl AsRef<OsStr>, to: impl AsRef<OsStr>) -> io::Result<()> {
        self.0.set_aside(name.as_ref(), to.as_ref())
    }

    /// Renames a file, replacing any file with the new name.
    ///
    /// # Errors
    /// The system's errors.
    pub fn rename(&self, name: impl AsRef<OsStr>, to: impl AsRef<OsStr>) -> io::Result<()> {
        self.0.rename(name.as_ref(), to.as_ref())
    }

    /// Renames a file to an unused name.
    ///
    /// # Errors
    /// The system's errors; [`io::ErrorKind::AlreadyExists`] if the name is taken.
    pub fn rename_new(&self, name: impl AsRef<OsStr>, to: impl AsRef<OsStr>) -> io::Result<()> {
        self.0.rename_new(name.as_ref(), &self.0, to.as_ref())
    }

    /// Moves a file into another folder, where its name must be unused.
    ///
    /// # Errors
    /// The errors of [`rename_new`](Folder::rename_new).
    pub fn move_into(&self, name: impl AsRef<OsStr>, folder: &Folder) -> io::Result<()> {
        self.0.rename_new(name.as_ref(), &folder.0, name.as_ref())
    }

    /// Creates a folder under an unused name.
    ///
    /// # Errors
    /// The system's errors; [`io::ErrorKind::AlreadyExists`] if the name is taken.
    pub fn new_folder(&self, name: impl AsRef<OsStr>) -> io::Result<Folder> {
        self.0.new_folder(name.as_ref()).map(Folder)
    }

    /// Removes a file, or a link rather than its target.
    ///
    /// # Errors
    /// The system's errors.
    pub fn remove(&self, name: impl AsRef<OsStr>) -> io::Result<()> {
        self.0.remove(name.as_ref())
    }

    /// Removes an empty folder.
    ///
    /// # Errors
    /// The system's errors.
    pub fn remove_folder(&self, name: impl AsRef<OsStr>) -> io::Result<()> {
        self.0.remove_folder(name.as_ref())
    }

    /// Returns the current path of the folder, without links.
    ///
    /// # Errors
    /// The system's errors.
    pub fn path(&self) -> io::Result<PathBuf> {
        self.0.path()
    }
}

/// Opens a file at its end, or a new one.
///
/// ```
/// use std::io::Write;
///
/// let folder = tempfile::tempdir()?;
/// let path = folder.path().join("summary.md");
/// for line in ["one\n", "two\n"] {
///     memreel_snapshot::place::append(&path)?.write_all(line.as_bytes())?;
/// }
/// assert_eq!(std::fs::read_to_string(&path)?, "one\ntwo\n");
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
/// The system's errors, and [`io::ErrorKind::PermissionDenied`] for a link or a file that another user put into a
/// folder that others may write into.
pub fn append(path: impl AsRef<Path>) -> io::Result<File> {
    Place::of(path.as_ref())?.append()
}
