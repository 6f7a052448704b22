//! Folders and names in them, as paths, on systems without folder descriptors.
#![forbid(unsafe_code)]

use std::{
    fs::{self, File, Permissions},
    io,
    path::{Path, PathBuf},
};

use tempfile::{NamedTempFile, TempPath};

/// The path of a folder.
#[derive(Debug)]
pub(super) struct Folder(PathBuf);

/// The path of a file; links were followed.
#[derive(Debug)]
pub(crate) struct Place(PathBuf);

/// What has the name.
#[derive(Debug)]
pub(crate) enum Found {
    Nothing,
    File(Permissions),
    Folder,
    Other,
}

/// A file that has a temporary name in its folder until it is complete.
#[derive(Debug)]
pub(crate) struct Begun<'p> {
    place: &'p Place,
    temporary: TempPath,
    pub(crate) file: File,
}

impl Folder {
    pub(super) fn open(path: &Path) -> io::Result<Folder> {
        match fs::metadata(path)?.is_dir() {
            true => Ok(Folder(path.to_owned())),
            false => Err(io::ErrorKind::NotADirectory.into()),
        }
    }

    pub(super) fn make(path: &Path) -> io::Result<Folder> {
        fs::create_dir_all(path).and_then(|()| Folder::open(path))
    }

    pub(super) fn place(&self, name: &Path) -> io::Result<Place> {
        Place::of(&self.0.join(name))
    }
}

impl Place {
    pub(crate) fn of(path: &Path) -> io::Result<Place> {
        match fs::symlink_metadata(path) {
            Ok(found) if found.is_symlink() => Ok(Place(fs::canonicalize(path)?)),
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(Place(path.to_owned())),
        }
    }

    pub(crate) fn found(&self) -> io::Result<Found> {
        match fs::metadata(&self.0) {
            Ok(found) if found.is_file() => Ok(Found::File(found.permissions())),
            Ok(found) if found.is_dir() => Ok(Found::Folder),
            Ok(_) => Ok(Found::Other),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Found::Nothing),
            Err(error) => Err(error),
        }
    }

    pub(crate) fn remove(&self) -> io::Result<()> {
        match self.found()? {
            Found::File(_) => fs::remove_file(&self.0),
            _ => Ok(()),
        }
    }

    pub(crate) fn open_other(&self) -> io::Result<File> {
        File::create(&self.0)
    }

    pub(crate) fn append(&self) -> io::Result<File> {
        File::options().append(true).create(true).open(&self.0)
    }

    pub(crate) fn begin(&self) -> io::Result<Begun<'_>> {
        let folder = self.0.parent().filter(|folder| *folder != Path::new("")).unwrap_or(Path::new("."));
        // Reports a missing folder in the system's words.
        fs::metadata(folder)?;
        // A page has no processes.
        let process = if cfg!(target_family = "wasm") { 0 } else { std::process::id() };
        let mut builder = tempfile::Builder::new();
        let begun = builder.prefix(&format!(".memreel-{process}-")).suffix(".tmp").tempfile_in(folder);
        let (file, temporary) = begun.map_err(|error| error.kind()).map(NamedTempFile::into_parts)?;
        Ok(Begun { place: self, temporary, file })
    }

    pub(crate) fn sync(&self) {}
}

impl Begun<'_> {
    pub(crate) fn finish(self) -> io::Result<()> {
        let Begun { place, temporary, file } = self;
        drop(file);
        temporary.persist(&place.0).map_err(|failed| failed.error.kind().into())
    }
}
