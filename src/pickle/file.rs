//! Files on disk: replaced as a whole when written, mapped into memory when read and large.

use std::{
    fs::{self, File},
    io::{self, Read, Write},
    ops::Deref,
    path::{Path, PathBuf},
};

use memmap2::{Mmap, MmapOptions};

use crate::error::{Error, Result};

const CANNOT_SAVE: &str = "cannot save the snapshot, and what was there is untouched; check that the folder exists, \
     may be written to and has space, or save elsewhere:";
const CANNOT_LOAD: &str = "cannot read the snapshot; check the path and your permissions:";

/// Below this, reading is as fast as mapping.
const WORTH_MAPPING_BYTES: u64 = 1 << 20;

/// Writes a file under a temporary name in the same folder, then renames it.
///
/// Renaming within a folder never crosses devices, and readers see the old file
/// or the new one, never half of either.
pub(super) fn replace(path: &Path, fill: impl FnOnce(&mut File) -> io::Result<()>) -> Result<()> {
    replace_quietly(path, fill).map_err(|error| Error::io(CANNOT_SAVE, path, error))
}

fn replace_quietly(path: &Path, fill: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<()> {
    let target = target(path)?;
    let folder = match target.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    };
    // Reports a missing folder in the system's words.
    fs::metadata(folder)?;
    let before = fs::metadata(&target).ok();
    let mut temporary = builder().tempfile_in(folder).map_err(without_temporary_name)?;
    fill(temporary.as_file_mut())?;
    temporary.flush()?;
    if let Some(before) = before {
        temporary.as_file().set_permissions(before.permissions())?;
    }
    temporary.as_file().sync_all()?;
    temporary.persist(&target).map_err(|error| without_temporary_name(error.error))?;
    // The new name itself is on the disk only with its folder. Where a folder
    // cannot be opened or synced, the file is complete all the same.
    let _ = File::open(folder).and_then(|folder| folder.sync_all());
    Ok(())
}

/// Removes the temporary name, which `tempfile` adds to the system's error and which does not help users.
fn without_temporary_name(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::Other => error,
        kind => kind.into(),
    }
}

/// Returns the path of the file to replace: a link stays a link, and only a file is replaced.
fn target(path: &Path) -> io::Result<PathBuf> {
    let target = match fs::symlink_metadata(path) {
        Ok(found) if found.is_symlink() => fs::canonicalize(path)?,
        Ok(_) => path.to_path_buf(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(path.to_path_buf()),
        Err(error) => return Err(error),
    };
    if fs::metadata(&target)?.is_file() {
        return Ok(target);
    }
    let what = "it is a folder, a device or a pipe, not a file (pickle::write writes into anything)";
    Err(io::Error::new(io::ErrorKind::InvalidInput, what))
}

/// Temporary files are private by default; a snapshot gets the permissions that
/// `File::create` would give it.
fn builder() -> tempfile::Builder<'static, 'static> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(".memreel-").suffix(".tmp");
    #[cfg(unix)]
    {
        use std::{fs::Permissions, os::unix::fs::PermissionsExt};
        builder.permissions(Permissions::from_mode(0o666));
    }
    builder
}

/// The bytes of a file.
#[derive(Debug)]
pub(super) enum Bytes {
    Mapped(Mmap),
    Read(Vec<u8>),
}

impl Bytes {
    /// Gives the pages that were read back to the kernel; later reads load them again.
    pub(super) fn forget(&self) {
        #[cfg(unix)]
        if let Bytes::Mapped(map) = self {
            // SAFETY: the map is read only, so every page is in the file and is loaded again with the same
            // bytes, because the file does not change while it is mapped (see `bytes_of`). A failure costs
            // memory alone.
            let _ = unsafe { map.unchecked_advise(memmap2::UncheckedAdvice::DontNeed) };
        }
    }
}

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Bytes::Mapped(map) => map,
            Bytes::Read(bytes) => bytes,
        }
    }
}

/// Returns a file's bytes, mapped if it is large. Loads all pages at once.
pub(super) fn bytes(path: &Path) -> Result<Bytes> {
    bytes_of(path, MmapOptions::new().populate())
}

/// Returns a file's bytes, mapped if it is large. Pages are loaded when they are read.
pub(super) fn bytes_piecemeal(path: &Path) -> Result<Bytes> {
    bytes_of(path, &MmapOptions::new())
}

fn bytes_of(path: &Path, options: &MmapOptions) -> Result<Bytes> {
    let read = || {
        let mut file = File::open(path)?;
        let found = file.metadata()?;
        if !found.is_file() {
            let what = match found.is_dir() {
                true => "it is a folder; give the path of a snapshot file in it",
                false => "it is a device or a pipe, not a file",
            };
            return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
        }
        if found.len() < WORTH_MAPPING_BYTES {
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes)?;
            return Ok(Bytes::Read(bytes));
        }
        // A file that is refused for its size is not loaded first.
        let piecemeal = MmapOptions::new();
        let options = if found.len() <= u64::from(u32::MAX) { options } else { &piecemeal };
        // SAFETY: the map is private and read only, and lives no longer than one call of `load` or `inspect` or
        // than an `OpenFile`, whose documentation requires that the file does not change meanwhile. memreel never
        // changes a file in place: `replace` renames another file.
        let map = unsafe { options.map(&file)? };
        Ok(Bytes::Mapped(map))
    };
    read().map_err(|error| Error::io(CANNOT_LOAD, path, error))
}
