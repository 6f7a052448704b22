//! Where a file is written, on systems without descriptors of folders: a path.
#![forbid(unsafe_code)]

use std::{
    fs::{self, File, Permissions},
    io,
    path::{Path, PathBuf},
};

use tempfile::{NamedTempFile, TempPath};

/// The path of a file; a link was followed.
#[derive(Debug)]
pub(super) struct Place(PathBuf);

/// What has the name.
#[derive(Debug)]
pub(super) enum Found {
    Nothing,
    File(Permissions),
    Folder,
    Other,
}

/// A file that has a temporary name in its folder until it is whole.
#[derive(Debug)]
pub(super) struct Begun<'p> {
    place: &'p Place,
    temporary: TempPath,
    pub(super) file: File,
}

impl Place {
    pub(super) fn of(path: &Path) -> io::Result<Place> {
        match fs::symlink_metadata(path) {
            Ok(found) if found.is_symlink() => Ok(Place(fs::canonicalize(path)?)),
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(Place(path.to_owned())),
        }
    }

    pub(super) fn found(&self) -> io::Result<Found> {
        match fs::metadata(&self.0) {
            Ok(found) if found.is_file() => Ok(Found::File(found.permissions())),
            Ok(found) if found.is_dir() => Ok(Found::Folder),
            Ok(_) => Ok(Found::Other),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Found::Nothing),
            Err(error) => Err(error),
        }
    }

    pub(super) fn open_other(&self) -> io::Result<File> {
        File::create(&self.0)
    }

    pub(super) fn begin(&self) -> io::Result<Begun<'_>> {
        let folder = self.0.parent().filter(|folder| *folder != Path::new("")).unwrap_or(Path::new("."));
        // Reports a missing folder in the system's words.
        fs::metadata(folder)?;
        let mut builder = tempfile::Builder::new();
        let begun =
            builder.prefix(&format!(".memreel-{}-", std::process::id())).suffix(".tmp").tempfile_in(folder);
        let (file, temporary) = begun.map_err(|error| error.kind()).map(NamedTempFile::into_parts)?;
        Ok(Begun { place: self, temporary, file })
    }

    pub(super) fn sync(&self) {}
}

impl Begun<'_> {
    pub(super) fn finish(self) -> io::Result<()> {
        let Begun { place, temporary, file } = self;
        drop(file);
        temporary.persist(&place.0).map_err(|failed| failed.error.kind().into())
    }
}
