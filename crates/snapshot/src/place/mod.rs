//! Where files are: how they are written, in a folder that is open and each as a whole or not at all, and how they are opened.
//!
//! Each part of a path is looked at once. In a folder that other users may write into, a link is followed only if its owner is
//! the caller or the owner of the folder: another may have put it there.
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

/// A folder that is open: what its path leads to later changes nothing.
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
    /// Opens a folder that is there.
    ///
    /// # Errors
    /// What the system returns, and [`io::ErrorKind::PermissionDenied`] for a link that another user may have put there.
    pub fn open(path: impl AsRef<Path>) -> io::Result<Folder> {
        system::Folder::open(path.as_ref()).map(Folder)
    }

    /// Opens a folder, which is made if it is missing, with those above it.
    ///
    /// # Errors
    /// Those of [`Folder::open`].
    pub fn make(path: impl AsRef<Path>) -> io::Result<Folder> {
        system::Folder::make(path.as_ref()).map(Folder)
    }

    /// Writes a file of this name: under a temporary name, the whole file or nothing. A pipe or a device is written into.
    ///
    /// # Errors
    /// What the system or `fill` returns. An earlier file of that name is then untouched.
    pub fn replace(
        &self,
        name: impl AsRef<Path>,
        fill: impl FnOnce(&mut File) -> io::Result<()>,
    ) -> io::Result<()> {
        replace(&self.0.place(name.as_ref())?, (Durability::Unsynced, Target::Anything), fill)
    }
}

/// What only programs that record need.
#[cfg(target_os = "linux")]
impl Folder {
    /// Makes a folder of this name that its user alone may enter.
    ///
    /// # Errors
    /// What the system returns, also for a name that something has.
    pub fn private(&self, name: impl AsRef<OsStr>) -> io::Result<Folder> {
        self.0.private(name.as_ref()).map(Folder)
    }

    /// Opens the folder of a path, which is made if it is missing. Returns it with the name that the path ends with.
    ///
    /// # Errors
    /// Those of [`Folder::make`], and [`io::ErrorKind::InvalidInput`] for a path without a name.
    pub fn above(path: impl AsRef<Path>) -> io::Result<(Folder, OsString)> {
        let path = path.as_ref();
        let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?.to_owned();
        let above = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        Ok((Folder::make(above.unwrap_or(Path::new(".")))?, name))
    }

    /// Makes a file of a name that nothing has, with these permissions.
    ///
    /// # Errors
    /// What the system returns.
    pub fn create(&self, name: impl AsRef<OsStr>, mode: u32) -> io::Result<File> {
        self.0.create(name.as_ref(), mode)
    }

    /// Opens an empty file, by which this user has taken the name; `None` if there is none.
    ///
    /// # Errors
    /// What the system returns.
    pub fn taken(&self, name: impl AsRef<OsStr>) -> io::Result<Option<File>> {
        self.0.taken(name.as_ref())
    }

    /// Gives what has a name another one, unless it is a folder.
    ///
    /// # Errors
    /// What the system returns.
    pub fn set_aside(&self, name: impl AsRef<OsStr>, to: impl AsRef<OsStr>) -> io::Result<()> {
        self.0.set_aside(name.as_ref(), to.as_ref())
    }

    /// Gives a file another name, in place of what has it.
    ///
    /// # Errors
    /// What the system returns.
    pub fn rename(&self, name: impl AsRef<OsStr>, to: impl AsRef<OsStr>) -> io::Result<()> {
        self.0.rename(name.as_ref(), to.as_ref())
    }

    /// Gives a file another name, which nothing has.
    ///
    /// # Errors
    /// What the system returns; [`io::ErrorKind::AlreadyExists`] if something has the name.
    pub fn rename_new(&self, name: impl AsRef<OsStr>, to: impl AsRef<OsStr>) -> io::Result<()> {
        self.0.rename_new(name.as_ref(), &self.0, to.as_ref())
    }

    /// Moves a file into another folder, where nothing has its name.
    ///
    /// # Errors
    /// Those of [`rename_new`](Folder::rename_new).
    pub fn move_into(&self, name: impl AsRef<OsStr>, folder: &Folder) -> io::Result<()> {
        self.0.rename_new(name.as_ref(), &folder.0, name.as_ref())
    }

    /// Makes a folder of a name that nothing has.
    ///
    /// # Errors
    /// What the system returns; [`io::ErrorKind::AlreadyExists`] if something has the name.
    pub fn new_folder(&self, name: impl AsRef<OsStr>) -> io::Result<Folder> {
        self.0.new_folder(name.as_ref()).map(Folder)
    }

    /// Removes a file, or a link and not what it leads to.
    ///
    /// # Errors
    /// What the system returns.
    pub fn remove(&self, name: impl AsRef<OsStr>) -> io::Result<()> {
        self.0.remove(name.as_ref())
    }

    /// Removes an empty folder.
    ///
    /// # Errors
    /// What the system returns.
    pub fn remove_folder(&self, name: impl AsRef<OsStr>) -> io::Result<()> {
        self.0.remove_folder(name.as_ref())
    }

    /// Returns where the folder is now, without links.
    ///
    /// # Errors
    /// What the system returns.
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
/// What the system returns, and [`io::ErrorKind::PermissionDenied`] for a link or a file that another user put into a folder
/// that others may write into.
pub fn append(path: impl AsRef<Path>) -> io::Result<File> {
    Place::of(path.as_ref())?.append()
}
