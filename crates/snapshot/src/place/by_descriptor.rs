//! Open folders, and names in them. Each part of a path is resolved only once, so that nothing is followed that others
//! put there meanwhile.
#![forbid(unsafe_code)]

use std::{
    collections::VecDeque,
    ffi::{OsStr, OsString},
    fs::{File, Permissions},
    hash::{BuildHasher, RandomState},
    io,
    os::{
        fd::OwnedFd,
        unix::{ffi::OsStringExt, fs::PermissionsExt},
    },
    path::{Component, Path},
    process,
};

#[cfg(target_os = "linux")]
use rustix::fs::{RenameFlags, linkat, renameat_with};
use rustix::{
    fs::{
        AtFlags, CWD, FileType, Mode, OFlags, Stat, fcntl_setfl, fstat, mkdirat, openat, readlinkat,
        renameat, statat, unlinkat,
    },
    io::Errno,
    process::geteuid,
};

/// The maximum number of links in a path, as in the kernel.
const MOST_LINKS: usize = 40;

/// The permissions that let others write to a folder.
const OTHERS_WRITE: u32 = 0o022;

/// How to open a folder that is only passed through: it need not be readable.
const FOLDER: OFlags = OFlags::DIRECTORY.union(OFlags::CLOEXEC).union(PASSED);
#[cfg(target_os = "linux")]
const PASSED: OFlags = OFlags::PATH;
#[cfg(not(target_os = "linux"))]
const PASSED: OFlags = OFlags::RDONLY;

/// How to open a new file.
const NEW: OFlags = OFlags::RDWR.union(OFlags::CREATE).union(OFlags::EXCL).union(UNFOLLOWED);
const UNFOLLOWED: OFlags = OFlags::NOFOLLOW.union(OFlags::CLOEXEC);

/// The permissions that `File::create` requests; the umask removes some.
const OPEN_TO_ALL: Mode = Mode::from_raw_mode(0o666);

/// The expected end of a path.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Name,
    Folder,
    /// A folder, which is created if it is missing, along with its parents.
    NewFolder,
}

/// An open folder.
#[derive(Debug)]
pub(super) struct Folder(OwnedFd);

/// A name in an open folder. It is not a link, except one of the kernel's own in `/proc`.
#[derive(Debug)]
pub(crate) struct Place {
    folder: Folder,
    name: OsString,
    is_of_kernel: bool,
}

/// The kind of file with the name.
#[derive(Debug)]
pub(crate) enum Found {
    Nothing,
    File(Permissions),
    Folder,
    /// A pipe, a device, or what a link of the kernel leads to.
    Other,
}

/// A file that has a temporary name in its folder until it is complete.
#[derive(Debug)]
pub(crate) struct Begun<'p> {
    place: &'p Place,
    /// `None` once the file has its name.
    name: Option<String>,
    pub(crate) file: File,
}

impl Folder {
    pub(super) fn open(path: &Path) -> io::Result<Folder> {
        Ok(Folder(walk(start(path)?, path, End::Folder)?.0))
    }

    pub(super) fn make(path: &Path) -> io::Result<Folder> {
        Ok(Folder(walk(start(path)?, path, End::NewFolder)?.0))
    }

    pub(super) fn place(&self, name: &Path) -> io::Result<Place> {
        Place::from(self.0.try_clone()?, name)
    }
}

/// For programs that record.
#[cfg(target_os = "linux")]
impl Folder {
    pub(super) fn private(&self, name: &OsStr) -> io::Result<Folder> {
        mkdirat(&self.0, name, Mode::RWXU)?;
        let new = openat(&self.0, name, FOLDER | OFlags::NOFOLLOW, Mode::empty())?;
        let found = fstat(&new)?;
        if found.st_uid != geteuid().as_raw() || mode_of(&found) & 0o077 != 0 {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        Ok(Folder(new))
    }

    pub(super) fn create(&self, name: &OsStr, mode: u32) -> io::Result<File> {
        Ok(openat(&self.0, name, NEW, Mode::from_raw_mode(mode))?.into())
    }

    pub(super) fn taken(&self, name: &OsStr) -> io::Result<Option<File>> {
        // Does not wait for a pipe.
        let Ok(file) = openat(&self.0, name, OFlags::RDWR | OFlags::NONBLOCK | UNFOLLOWED, Mode::empty())
        else {
            return Ok(None);
        };
        let found = fstat(&file)?;
        let is_empty = FileType::from_raw_mode(found.st_mode) == FileType::RegularFile && found.st_size == 0;
        Ok((is_empty && check_owned(&fstat(&self.0)?, &found, name, "file").is_ok()).then(|| file.into()))
    }

    pub(super) fn set_aside(&self, name: &OsStr, to: &OsStr) -> io::Result<()> {
        match statat(&self.0, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(found) if FileType::from_raw_mode(found.st_mode) == FileType::Directory => Ok(()),
            Ok(_) => self.rename(name, to),
            Err(Errno::NOENT) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    pub(super) fn rename(&self, name: &OsStr, to: &OsStr) -> io::Result<()> {
        Ok(renameat(&self.0, name, &self.0, to)?)
    }

    pub(super) fn new_folder(&self, name: &OsStr) -> io::Result<Folder> {
        mkdirat(&self.0, name, Mode::from_raw_mode(0o777))?;
        let new = openat(&self.0, name, FOLDER | OFlags::NOFOLLOW, Mode::empty())?;
        check_owned(&fstat(&self.0)?, &fstat(&new)?, name, "folder")?;
        Ok(Folder(new))
    }

    pub(super) fn rename_new(&self, name: &OsStr, folder: &Folder, to: &OsStr) -> io::Result<()> {
        match renameat_with(&self.0, name, &folder.0, to, RenameFlags::NOREPLACE) {
            // Some file systems do not support it.
            Err(Errno::INVAL | Errno::NOSYS) => {
                linkat(&self.0, name, &folder.0, to, AtFlags::empty())?;
                self.remove(name)
            }
            done => Ok(done?),
        }
    }

    pub(super) fn remove(&self, name: &OsStr) -> io::Result<()> {
        Ok(unlinkat(&self.0, name, AtFlags::empty())?)
    }

    pub(super) fn remove_folder(&self, name: &OsStr) -> io::Result<()> {
        Ok(unlinkat(&self.0, name, AtFlags::REMOVEDIR)?)
    }

    pub(super) fn path(&self) -> io::Result<std::path::PathBuf> {
        use std::os::fd::AsRawFd;

        std::fs::read_link(format!("/proc/self/fd/{}", self.0.as_raw_fd()))
    }
}

impl Place {
    /// Finds the place of a path.
    ///
    /// # Errors
    /// The system's errors, and [`io::ErrorKind::PermissionDenied`] for a link of another user in a folder that others
    /// may write into.
    pub(crate) fn of(path: &Path) -> io::Result<Place> {
        Place::from(start(path)?, path)
    }

    fn from(folder: OwnedFd, path: &Path) -> io::Result<Place> {
        let (folder, name) = walk(folder, path, End::Name)?;
        let (name, is_of_kernel) = name.ok_or(Errno::ISDIR)?;
        Ok(Place { folder: Folder(folder), name, is_of_kernel })
    }

    /// Returns the kind of file with the name.
    ///
    /// # Errors
    /// The system's errors.
    pub(crate) fn found(&self) -> io::Result<Found> {
        if self.is_of_kernel {
            return Ok(Found::Other);
        }
        match statat(&self.folder.0, &self.name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(found) => Ok(match FileType::from_raw_mode(found.st_mode) {
                FileType::RegularFile => Found::File(Permissions::from_mode(mode_of(&found) & 0o777)),
                FileType::Directory => Found::Folder,
                _ => Found::Other,
            }),
            Err(Errno::NOENT) => Ok(Found::Nothing),
            Err(error) => Err(error.into()),
        }
    }

    /// Removes the name, if it is a file.
    ///
    /// # Errors
    /// The system's errors.
    pub(crate) fn remove(&self) -> io::Result<()> {
        match self.found()? {
            Found::File(_) => Ok(unlinkat(&self.folder.0, &self.name, AtFlags::empty())?),
            _ => Ok(()),
        }
    }

    /// Opens a pipe or a device.
    ///
    /// # Errors
    /// The system's errors.
    pub(crate) fn open_other(&self) -> io::Result<File> {
        let flags = OFlags::WRONLY | OFlags::CLOEXEC;
        if self.is_of_kernel {
            return Ok(openat(&self.folder.0, &self.name, flags | OFlags::TRUNC, Mode::empty())?.into());
        }
        let named = Named::of(&self.folder.0, &self.name)?;
        check_owned(&fstat(&self.folder.0)?, &named.found, &self.name, "pipe or device")?;
        named.open(flags)
    }

    /// Opens a file at its end, or a new one.
    ///
    /// # Errors
    /// The system's errors, and [`io::ErrorKind::PermissionDenied`] for what another user put into a folder that others
    /// may write into.
    pub(crate) fn append(&self) -> io::Result<File> {
        let open = |flags| openat(&self.folder.0, &self.name, OFlags::APPEND | flags, OPEN_TO_ALL);
        if self.is_of_kernel {
            return Ok(open(OFlags::WRONLY | OFlags::CLOEXEC)?.into());
        }
        // Does not wait for a pipe that another user has put there.
        match open(OFlags::WRONLY | OFlags::NONBLOCK | UNFOLLOWED) {
            Err(Errno::NOENT) => Ok(open(NEW)?.into()),
            opened => {
                let opened = opened?;
                check_owned(&fstat(&self.folder.0)?, &fstat(&opened)?, &self.name, "file")?;
                fcntl_setfl(&opened, OFlags::APPEND)?;
                Ok(opened.into())
            }
        }
    }

    /// Starts a file under an unused name.
    ///
    /// # Errors
    /// The system's errors.
    pub(crate) fn begin(&self) -> io::Result<Begun<'_>> {
        for n in 0..100 {
            // With the process's number: what is left of one that was killed is known for its own.
            let name = format!(".memreel-{}-{:016x}.tmp", process::id(), RandomState::new().hash_one(n));
            match openat(&self.folder.0, &name, NEW, OPEN_TO_ALL) {
                Ok(file) => return Ok(Begun { place: self, name: Some(name), file: file.into() }),
                Err(Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(Errno::EXIST.into())
    }

    /// Syncs the folder's names to disk, where a folder can be opened and synced.
    pub(crate) fn sync(&self) {
        let readable = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let _ =
            openat(&self.folder.0, ".", readable, Mode::empty()).map(|folder| File::from(folder).sync_all());
    }
}

/// The file that had a name at one moment, whatever has it later.
struct Named {
    #[cfg(target_os = "linux")]
    file: OwnedFd,
    #[cfg(not(target_os = "linux"))]
    place: (OwnedFd, OsString),
    found: Stat,
}

#[cfg(target_os = "linux")]
impl Named {
    fn of(folder: &OwnedFd, name: &OsStr) -> io::Result<Named> {
        let file = openat(folder, name, OFlags::PATH | UNFOLLOWED, Mode::empty())?;
        let found = fstat(&file)?;
        Ok(Named { file, found })
    }

    fn link(&self) -> io::Result<OsString> {
        Ok(OsString::from_vec(readlinkat(&self.file, "", Vec::new())?.into_bytes()))
    }

    fn open(&self, flags: OFlags) -> io::Result<File> {
        let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&self.file));
        Ok(openat(CWD, path, flags, Mode::empty())?.into())
    }
}

/// Without descriptors that open nothing, a name is looked at again.
#[cfg(not(target_os = "linux"))]
impl Named {
    fn of(folder: &OwnedFd, name: &OsStr) -> io::Result<Named> {
        let found = statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)?;
        Ok(Named { place: (folder.try_clone()?, name.to_owned()), found })
    }

    fn link(&self) -> io::Result<OsString> {
        Ok(OsString::from_vec(readlinkat(&self.place.0, &self.place.1, Vec::new())?.into_bytes()))
    }

    fn open(&self, flags: OFlags) -> io::Result<File> {
        Ok(openat(&self.place.0, &self.place.1, flags | OFlags::NOFOLLOW, Mode::empty())?.into())
    }
}

impl Begun<'_> {
    /// Gives the file its name, replacing any file that has it.
    ///
    /// # Errors
    /// The system's errors.
    pub(crate) fn finish(mut self) -> io::Result<()> {
        let Place { folder: Folder(folder), name: wanted, .. } = self.place;
        if let Some(name) = &self.name {
            renameat(folder, name, folder, wanted)?;
        }
        self.name = None;
        Ok(())
    }
}

impl Drop for Begun<'_> {
    fn drop(&mut self) {
        if let Some(name) = &self.name {
            let _ = unlinkat(&self.place.folder.0, name, AtFlags::empty());
        }
    }
}

/// Opens the folder in which a path starts.
fn start(path: &Path) -> io::Result<OwnedFd> {
    // The current folder may be one that this user cannot enter.
    Ok(openat(CWD, if path.is_absolute() { "/" } else { "." }, FOLDER, Mode::empty())?)
}

/// Follows a path from a folder. Returns the folder where it ends and, if one is wanted, the remaining name, with
/// whether that is one of the kernel's own links.
fn walk(mut folder: OwnedFd, path: &Path, end: End) -> io::Result<(OwnedFd, Option<(OsString, bool)>)> {
    let (mut rest, mut n_links) = (VecDeque::new(), 0);
    push(&mut rest, path);
    while let Some(part) = rest.pop_front() {
        let is_name = end == End::Name && rest.is_empty();
        if part == "/" || part == ".." || part == "." {
            folder = openat(&folder, &part, FOLDER, Mode::empty())?;
            continue;
        }
        if !is_name && let Some(next) = next(&folder, &part, end)? {
            folder = next;
            continue;
        }
        let link = match link(&folder, &part) {
            Ok(Some(link)) => link,
            Ok(None) if is_name => return Ok((folder, Some((part, false)))),
            Ok(None) => return Err(Errno::NOTDIR.into()),
            Err(error) if is_name && error.kind() == io::ErrorKind::NotFound => {
                return Ok((folder, Some((part, false))));
            }
            Err(error) => return Err(error),
        };
        n_links += 1;
        if n_links > MOST_LINKS {
            return Err(Errno::LOOP.into());
        }
        match (is_of_kernel(&folder), is_name) {
            // Such a link has no path: the file may have none.
            (true, true) => return Ok((folder, Some((part, true)))),
            (true, false) => folder = openat(&folder, &part, FOLDER, Mode::empty())?,
            (false, _) => push(&mut rest, Path::new(&link)),
        }
    }
    Ok((folder, None))
}

/// Returns the target of a link; `None` if it is not a link.
fn link(folder: &OwnedFd, name: &OsStr) -> io::Result<Option<OsString>> {
    let named = Named::of(folder, name)?;
    if FileType::from_raw_mode(named.found.st_mode) != FileType::Symlink {
        return Ok(None);
    }
    check_owned(&fstat(folder)?, &named.found, name, "link")?;
    named.link().map(Some)
}

/// Opens a folder in a folder; `None` for a link or a file.
fn next(folder: &OwnedFd, name: &OsStr, end: End) -> io::Result<Option<OwnedFd>> {
    let open = || openat(folder, name, FOLDER | OFlags::NOFOLLOW, Mode::empty());
    match open() {
        Ok(next) => Ok(Some(next)),
        Err(Errno::NOTDIR | Errno::LOOP) => Ok(None),
        Err(Errno::NOENT) if end == End::NewFolder => {
            match mkdirat(folder, name, Mode::from_raw_mode(0o777)) {
                // Another process may create it too.
                Ok(()) | Err(Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
            let new = open()?;
            check_owned(&fstat(folder)?, &fstat(&new)?, name, "folder")?;
            Ok(Some(new))
        }
        Err(error) => Err(error.into()),
    }
}

/// Puts the parts of a path before the rest.
fn push(rest: &mut VecDeque<OsString>, path: &Path) {
    let part = |part: Component<'_>| part.as_os_str().to_owned();
    path.components().rev().for_each(|component| rest.push_front(part(component)));
}

/// Rejects what another user put into a folder that others may write into: it may lead to a file of this user.
fn check_owned(of_folder: &Stat, found: &Stat, name: &OsStr, what: &str) -> io::Result<()> {
    let is_trusted = mode_of(of_folder) & OTHERS_WRITE == 0
        || found.st_uid == geteuid().as_raw()
        || found.st_uid == of_folder.st_uid;
    if is_trusted {
        return Ok(());
    }
    let why = format!(
        "{} is a {what} of another user (uid {}) in a folder that others can write to; give another file",
        Path::new(name).display().to_string().escape_debug(),
        found.st_uid,
    );
    Err(io::Error::new(io::ErrorKind::PermissionDenied, why))
}

#[allow(clippy::unnecessary_cast, clippy::cast_lossless, reason = "it has fewer bits on macOS")]
fn mode_of(found: &Stat) -> u32 {
    found.st_mode as u32
}

/// Returns whether links in a folder are the kernel's own.
#[cfg(target_os = "linux")]
fn is_of_kernel(folder: &OwnedFd) -> bool {
    rustix::fs::fstatfs(folder).is_ok_and(|found| found.f_type == rustix::fs::PROC_SUPER_MAGIC)
}

#[cfg(not(target_os = "linux"))]
fn is_of_kernel(_folder: &OwnedFd) -> bool {
    false
}
