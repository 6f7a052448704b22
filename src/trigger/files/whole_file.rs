//! A file that gets its name when it is whole.

use std::{
    ffi::OsStr,
    io,
    path::{Path, PathBuf},
    process,
    sync::atomic::{AtomicU64, Ordering},
};

use tempfile::TempPath;

use crate::trigger::files::pattern;
use memreel_snapshot::words::{Error, Result};

pub(in crate::trigger) const CANNOT_NAME: &str = "cannot give the file its name:";

/// Returns a path for a file that is being written: one that no other thread or process has.
pub(in crate::trigger) fn temporary(folder: &Path) -> PathBuf {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let next = NEXT.fetch_add(1, Ordering::Relaxed);
    folder.join(format!(".memreel-{}-{next}.dump.tmp", process::id()))
}

/// Gives a file its name, with a number if other files have the name, and returns the name.
pub(in crate::trigger) fn named(mut temporary: TempPath, path: &Path) -> Result<PathBuf> {
    let mut wanted = path.to_path_buf();
    for number in 1.. {
        match temporary.persist_noclobber(&wanted) {
            Ok(()) => return Ok(wanted),
            Err(failed) if failed.error.kind() == io::ErrorKind::AlreadyExists => temporary = failed.path,
            Err(failed) => return Err(Error::io(CANNOT_NAME, &wanted, failed.error.kind().into())),
        }
        let name = path.file_name().unwrap_or(OsStr::new("memreel.pickle")).to_string_lossy();
        wanted = path.with_file_name(pattern::numbered(&name, number));
    }
    Err(Error::io(CANNOT_NAME, path, io::ErrorKind::AlreadyExists.into()))
}
