//! The folder of a run, in which each process has its tape.

#![forbid(unsafe_code)]

use std::{
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
    process,
};

use memreel_snapshot::place;

use super::{places, told};
use crate::failure::Failure;

/// Makes git ignore the folder.
const IGNORED: &str = ".gitignore";

/// The folder of a run.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
    own: place::Folder,
    /// The parent folder, and this folder's name in it.
    above: place::Folder,
    name: String,
}

impl Folder {
    /// Creates the folder of this run, next to the snapshots in `output` or elsewhere (`places.rs`), or below `asked`.
    pub(super) fn create(output: &Path, asked: Option<&Path>) -> Result<Folder, Failure> {
        let open = |folder: &Path| {
            let opened = place::Folder::open(folder).and_then(|opened| Ok((opened.path()?, opened)));
            opened.map_err(|error| Failure::unwritable(folder, error))
        };
        let (path, output) = open(output)?;
        if let Some(asked) = asked {
            let (path, asked) = open(asked)?;
            return Folder::below(asked, &path);
        }
        let places = places::places(&path);
        let mut others = places.iter().filter(|place| **place != path && places::may_write(&path));
        let elsewhere = others.find_map(|place| {
            let (path, place) = open(place).ok()?;
            Folder::below(place, &path).ok()
        });
        elsewhere.map_or_else(|| Folder::below(output, &path), Ok)
    }

    fn below(above: place::Folder, parent: &Path) -> Result<Folder, Failure> {
        let unwritable = |error: io::Error| {
            let advice = "use -o to choose another folder, as in -o ~/snapshot.pickle";
            Failure::unwritable(parent, format!("{error}; {advice}"))
        };
        // Only the user may read the tapes: they have paths, and names of functions and scopes.
        let plain = format!(".memreel-record-{}", process::id());
        let (name, own) = match above.private(&plain) {
            Ok(own) => (plain, own),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                // Of an earlier process with this number.
                let name = format!("{plain}-{}", nanoseconds());
                let own = above.private(&name).map_err(unwritable)?;
                (name, own)
            }
            Err(error) => return Err(unwritable(error)),
        };
        // So that `git status` is what it is without the folder. Without room for it, git shows the folder.
        let _ = own.create(IGNORED, 0o666).and_then(|mut file| file.write_all(b"*\n"));
        Ok(Folder { path: parent.join(&name), own, above, name })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Removes the folder, unless something is in it.
    pub(super) fn remove_if_empty(&self) {
        let ours = [IGNORED, told::NAME];
        let is_ours = |entry: io::Result<fs::DirEntry>| {
            entry.is_ok_and(|of| ours.iter().any(|name| of.file_name() == *name))
        };
        if fs::read_dir(&self.path).is_ok_and(|mut entries| entries.all(is_ours)) {
            ours.iter().for_each(|name| _ = self.own.remove(name));
        }
        // Its contents remain: a tape that was kept, or one that could not be read.
        let _ = self.above.remove_folder(&self.name);
    }
}

fn nanoseconds() -> u128 {
    std::time::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_nanos())
}
