//! Files of strangers: nobody waits for a pipe, no device is read, and where folders are named, nothing outside of them is
//! opened, whatever links are there.
#![forbid(unsafe_code)]

use std::{fs::File, io, path::Path};

/// Opens a plain file for reading. With the variable `MEMREEL_ROOTS`, which `memreel mcp --root` sets for its questions, only
/// one below those folders.
///
/// # Errors
/// What the system returns; [`io::ErrorKind::InvalidInput`] for what is no plain file.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    let file = open_any(path)?;
    if file.metadata()?.is_file() {
        return Ok(file);
    }
    Err(io::Error::new(io::ErrorKind::InvalidInput, "it is a folder, a device or a pipe, not a file"))
}

#[cfg(all(target_os = "linux", not(miri)))]
fn open_any(path: &Path) -> io::Result<File> {
    use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat, openat2};

    let (flags, mode) = (OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty());
    let Some(roots) = super::environment::variable("MEMREEL_ROOTS") else {
        return Ok(openat(CWD, path, flags, mode)?.into());
    };
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    let below = std::env::split_paths(&roots).find_map(|root| {
        let rest = path.strip_prefix(&root).ok()?;
        let root = openat(CWD, &root, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, mode).ok()?;
        openat2(root, rest, flags, mode, resolve).ok()
    });
    below.map(File::from).ok_or_else(|| io::ErrorKind::PermissionDenied.into())
}

#[cfg(not(all(target_os = "linux", not(miri))))]
fn open_any(path: &Path) -> io::Result<File> {
    File::open(path)
}

#[cfg(all(test, target_os = "linux", not(miri)))]
mod tests {
    use super::*;

    #[test]
    fn nobody_waits_for_a_pipe() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
        assert!(made.success());
        for path in [&*pipe, Path::new("/dev/zero"), folder.path()] {
            assert_eq!(open(path).unwrap_err().kind(), io::ErrorKind::InvalidInput, "{}", path.display());
        }
    }
}
