//! Where a file is written: a folder that is open, and a name in it. Each part of a path is looked at once, so that nothing
//! is followed that others put there meanwhile.
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

use rustix::{
    fs::{AtFlags, CWD, FileType, Mode, OFlags, Stat, fstat, openat, readlinkat, renameat, statat, unlinkat},
    io::Errno,
    process::geteuid,
};

/// The links that a path may go through, as in the kernel.
const MOST_LINKS: usize = 40;

/// What may be done by anyone but the owner of a folder.
const OTHERS_WRITE: u32 = 0o022;

/// How a folder is opened that is only passed through: it need not be readable.
const FOLDER: OFlags = OFlags::DIRECTORY.union(OFlags::CLOEXEC).union(PASSED);
#[cfg(target_os = "linux")]
const PASSED: OFlags = OFlags::PATH;
#[cfg(not(target_os = "linux"))]
const PASSED: OFlags = OFlags::RDONLY;

/// A name in a folder that is open. It is no link, except one of the kernel's own, in `/proc`.
#[derive(Debug)]
pub(super) struct Place {
    folder: OwnedFd,
    name: OsString,
    is_of_kernel: bool,
}

/// What has the name.
#[derive(Debug)]
pub(super) enum Found {
    Nothing,
    File(Permissions),
    Folder,
    /// A pipe, a device, or what a link of the kernel leads to.
    Other,
}

/// A file that has a temporary name in its folder until it is whole.
#[derive(Debug)]
pub(super) struct Begun<'p> {
    place: &'p Place,
    /// `None` once the file has its name.
    name: Option<String>,
    pub(super) file: File,
}

impl Place {
    /// Finds the place of a path.
    ///
    /// # Errors
    /// What the system returns, and [`io::ErrorKind::PermissionDenied`] for a link of another user in a folder that others
    /// may write into.
    pub(super) fn of(path: &Path) -> io::Result<Place> {
        let mut folder = openat(CWD, ".", FOLDER, Mode::empty())?;
        let (mut rest, mut n_links) = (VecDeque::new(), 0);
        push(&mut rest, path);
        while let Some(part) = rest.pop_front() {
            let is_last = rest.is_empty();
            if part == "/" || part == ".." || part == "." {
                folder = openat(&folder, &part, FOLDER, Mode::empty())?;
                continue;
            }
            let link = match readlinkat(&folder, &part, Vec::new()) {
                Ok(link) => OsString::from_vec(link.into_bytes()),
                Err(Errno::INVAL) if is_last => return Ok(Place { folder, name: part, is_of_kernel: false }),
                Err(Errno::NOENT) if is_last => return Ok(Place { folder, name: part, is_of_kernel: false }),
                Err(Errno::INVAL) => {
                    folder = openat(&folder, &part, FOLDER | OFlags::NOFOLLOW, Mode::empty())?;
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            n_links += 1;
            if n_links > MOST_LINKS {
                return Err(Errno::LOOP.into());
            }
            check_owner(&folder, &part, "link")?;
            match (is_of_kernel(&folder), is_last) {
                // Such a link has no path: the file may have none.
                (true, true) => return Ok(Place { folder, name: part, is_of_kernel: true }),
                (true, false) => folder = openat(&folder, &part, FOLDER, Mode::empty())?,
                (false, _) => push(&mut rest, Path::new(&link)),
            }
        }
        Err(Errno::ISDIR.into())
    }

    /// Returns what has the name.
    ///
    /// # Errors
    /// What the system returns.
    pub(super) fn found(&self) -> io::Result<Found> {
        if self.is_of_kernel {
            return Ok(Found::Other);
        }
        match statat(&self.folder, &self.name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(found) => Ok(match FileType::from_raw_mode(found.st_mode) {
                FileType::RegularFile => Found::File(Permissions::from_mode(mode_of(&found) & 0o777)),
                FileType::Directory => Found::Folder,
                _ => Found::Other,
            }),
            Err(Errno::NOENT) => Ok(Found::Nothing),
            Err(error) => Err(error.into()),
        }
    }

    /// Opens a pipe or a device.
    ///
    /// # Errors
    /// What the system returns.
    pub(super) fn open_other(&self) -> io::Result<File> {
        let mut flags = OFlags::WRONLY | OFlags::CLOEXEC;
        if self.is_of_kernel {
            flags |= OFlags::TRUNC;
        } else {
            check_owner(&self.folder, &self.name, "pipe or device")?;
            flags |= OFlags::NOFOLLOW;
        }
        Ok(openat(&self.folder, &self.name, flags, Mode::empty())?.into())
    }

    /// Begins a file under a name that nothing has.
    ///
    /// # Errors
    /// What the system returns.
    pub(super) fn begin(&self) -> io::Result<Begun<'_>> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        for n in 0..100 {
            // With the process's number: what is left of one that was killed is known for its own.
            let name = format!(".memreel-{}-{:016x}.tmp", process::id(), RandomState::new().hash_one(n));
            // As `File::create` makes files: the umask takes away what others may not.
            match openat(&self.folder, &name, flags, Mode::from_raw_mode(0o666)) {
                Ok(file) => return Ok(Begun { place: self, name: Some(name), file: file.into() }),
                Err(Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(Errno::EXIST.into())
    }

    /// Has the folder's names on the disk, where a folder can be opened and synced.
    pub(super) fn sync(&self) {
        let readable = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let _ =
            openat(&self.folder, ".", readable, Mode::empty()).map(|folder| File::from(folder).sync_all());
    }
}

impl Begun<'_> {
    /// Gives the file its name, in place of what has it.
    ///
    /// # Errors
    /// What the system returns.
    pub(super) fn finish(mut self) -> io::Result<()> {
        if let Some(name) = &self.name {
            renameat(&self.place.folder, name, &self.place.folder, &self.place.name)?;
        }
        self.name = None;
        Ok(())
    }
}

impl Drop for Begun<'_> {
    fn drop(&mut self) {
        if let Some(name) = &self.name {
            let _ = unlinkat(&self.place.folder, name, AtFlags::empty());
        }
    }
}

/// Puts the parts of a path before the rest.
fn push(rest: &mut VecDeque<OsString>, path: &Path) {
    let part = |part: Component<'_>| part.as_os_str().to_owned();
    path.components().rev().for_each(|component| rest.push_front(part(component)));
}

/// Refuses what another user put into a folder that others may write into: it may lead to a file of this user.
fn check_owner(folder: &OwnedFd, name: &OsStr, what: &str) -> io::Result<()> {
    let (of_folder, found) = (fstat(folder)?, statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)?);
    let is_trusted = mode_of(&of_folder) & OTHERS_WRITE == 0
        || found.st_uid == geteuid().as_raw()
        || found.st_uid == of_folder.st_uid;
    if is_trusted {
        return Ok(());
    }
    let why = format!(
        "{} is a {what} of another user (uid {}) in a folder that others may write into; name another file",
        Path::new(name).display().to_string().escape_debug(),
        found.st_uid,
    );
    Err(io::Error::new(io::ErrorKind::PermissionDenied, why))
}

#[allow(clippy::unnecessary_cast, clippy::cast_lossless, reason = "it has fewer bits on macOS")]
fn mode_of(found: &Stat) -> u32 {
    found.st_mode as u32
}

/// Whether links in a folder are the kernel's own.
#[cfg(target_os = "linux")]
fn is_of_kernel(folder: &OwnedFd) -> bool {
    rustix::fs::fstatfs(folder).is_ok_and(|found| found.f_type == rustix::fs::PROC_SUPER_MAGIC)
}

#[cfg(not(target_os = "linux"))]
fn is_of_kernel(_folder: &OwnedFd) -> bool {
    false
}
