//! Opens files for reading. Others may put a pipe or a device in their place at any time, so the opened file is
//! checked, and nothing waits before that.
#![forbid(unsafe_code)]

use std::{
    fs::{File, Metadata},
    io,
    path::{Path, PathBuf},
    sync::OnceLock,
};

/// The folders below which files are opened; everywhere if not set.
static ROOTS: OnceLock<Vec<PathBuf>> = OnceLock::new();

/// Restricts this process to reading files below these folders from now on, whatever links lead to them. The folders
/// and the paths of files are absolute, and have no links. The first call holds.
pub fn keep_to(roots: Vec<PathBuf>) {
    let _ = ROOTS.set(roots);
}

/// Opens a plain file.
///
/// ```
/// assert!(memreel_snapshot::place::open_plain(std::env::temp_dir()).is_err());
/// ```
///
/// # Errors
/// The system's errors; [`io::ErrorKind::InvalidInput`] for anything other than a plain file.
pub fn open_plain(path: impl AsRef<Path>) -> io::Result<File> {
    let file = open_at_once(path.as_ref())?;
    if file.metadata()?.is_file() {
        return Ok(file);
    }
    Err(io::Error::new(io::ErrorKind::InvalidInput, "it is a folder, a device or a pipe, not a file"))
}

/// Opens a plain file or a pipe. Waits for a named pipe only if it is this user's or root's, because another user may
/// have put it there.
///
/// # Errors
/// The errors of [`open_plain`].
pub fn open_plain_or_pipe(path: impl AsRef<Path>) -> io::Result<File> {
    let file = open_at_once(path.as_ref())?;
    let found = file.metadata()?;
    if found.is_file() {
        return Ok(file);
    }
    awaited(&file, &found, path.as_ref())
}

/// Opens a file; a pipe without a writer is opened too.
pub(crate) fn open_at_once(path: &Path) -> io::Result<File> {
    let Some(roots) = ROOTS.get() else { return opened(path) };
    let below = roots.iter().find_map(|root| Some((root, path.strip_prefix(root).ok()?)));
    let (root, rest) = below.ok_or_else(is_outside)?;
    opened_below(root, rest)
}

fn is_outside() -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, "it is outside the folders whose files may be read")
}

#[cfg(target_os = "linux")]
fn opened_below(root: &Path, rest: &Path) -> io::Result<File> {
    use rustix::{
        fs::{CWD, Mode, OFlags, ResolveFlags, openat, openat2},
        io::Errno,
    };

    let root = openat(CWD, root, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    match openat2(root, rest, flags, Mode::empty(), resolve) {
        Err(Errno::XDEV) => Err(is_outside()),
        opened => Ok(opened?.into()),
    }
}

#[cfg(not(target_os = "linux"))]
fn opened_below(root: &Path, rest: &Path) -> io::Result<File> {
    let path = std::fs::canonicalize(root.join(rest))?;
    if path.starts_with(root) { opened(&path) } else { Err(is_outside()) }
}

fn opened(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        #[allow(clippy::cast_possible_wrap, reason = "a small number")]
        options.custom_flags(rustix::fs::OFlags::NONBLOCK.bits() as i32);
    }
    options.read(true).open(path)
}

/// Opens a pipe again, which waits for a writer.
#[cfg(unix)]
fn awaited(file: &File, found: &Metadata, path: &Path) -> io::Result<File> {
    use std::os::{
        fd::AsRawFd,
        unix::fs::{FileTypeExt, MetadataExt},
    };

    let own = if cfg!(target_os = "linux") { "/proc/self/fd" } else { "/dev/fd" };
    let own = Path::new(own).join(file.as_raw_fd().to_string());
    let is_unnamed =
        || std::fs::read_link(&own).is_ok_and(|link| link.to_string_lossy().starts_with("pipe:"));
    let is_trusted = || [0, rustix::process::geteuid().as_raw()].contains(&found.uid()) || is_unnamed();
    match found.file_type().is_fifo() && is_trusted() {
        true if own.exists() => File::open(own),
        true => File::open(path),
        false => {
            Err(io::Error::new(io::ErrorKind::InvalidInput, "it is a device, or a pipe of another user"))
        }
    }
}

#[cfg(not(unix))]
fn awaited(_file: &File, _found: &Metadata, _path: &Path) -> io::Result<File> {
    Err(io::ErrorKind::InvalidInput.into())
}
