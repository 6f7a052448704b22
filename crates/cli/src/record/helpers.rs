//! Groups the small processes of a run, such as those that a script starts: many of them share one line and one folder.

#![forbid(unsafe_code)]

use std::{
    ffi::{OsStr, OsString},
    io,
    path::Path,
};

use memreel_snapshot::place::Folder;

use super::recorded::Recorded;
use crate::text::{Bytes, ShownPath};

/// A helper's peak is below this.
const LEAST_BYTES: u64 = 1 << 20;

/// The most helpers that have lines of their own.
const MOST: usize = 8;

/// Moves the snapshots of helpers into their own folder, or one next to it if it exists, if there are many. `files` are
/// the names of all snapshots. Returns the line about them.
pub(super) fn fold(
    saved: &mut [Recorded],
    files: &mut [String],
    folder: &Path,
    program: u32,
) -> Option<String> {
    let is_helper = |of: &&mut Recorded| {
        let is_program = of.tape.process == program && !of.is_left;
        let has_no_news = of.problems.is_empty() && !of.is_running && of.n_dropped == 0;
        of.path.is_some() && !is_program && has_no_news && of.peak.bytes < LEAST_BYTES
    };
    let mut helpers: Vec<&mut Recorded> = saved.iter_mut().filter(is_helper).collect();
    if helpers.len() <= MOST {
        return None;
    }
    let (above, name) = Folder::above(folder).ok()?;
    let (new, name) = new_folder(&above, &name).ok()?;
    let folder = folder.with_file_name(name);
    let mut n_moved = 0;
    for helper in &mut helpers {
        let Some(path) = helper.path.as_ref().filter(|path| above_of(path) == above_of(&folder)) else {
            continue;
        };
        let name = path.file_name().unwrap_or_default();
        let moved = folder.join(name);
        // What cannot be moved stays where it is, with its line.
        if above.move_into(name, &new).is_err() {
            continue;
        }
        let old = path.display().to_string();
        files.iter_mut().filter(|file| **file == old).for_each(|file| *file = moved.display().to_string());
        (helper.path, helper.is_helper) = (Some(moved), true);
        n_moved += 1;
    }
    let folder = folder.strip_prefix(".").unwrap_or(&folder);
    let least = Bytes(LEAST_BYTES);
    Some(format!("{n_moved} helpers, each with a peak below {least}: {}", ShownPath(&folder.join(""))))
}

/// Returns the parent folder of a path: empty for the current one.
fn above_of(path: &Path) -> Option<&Path> {
    path.parent().map(|folder| folder.strip_prefix(".").unwrap_or(folder))
}

/// Creates a folder, with a number appended if the name is taken: nothing of an earlier run is replaced.
fn new_folder(above: &Folder, first: &OsStr) -> io::Result<(Folder, OsString)> {
    let numbered = (1_u32..1000).map(|n| format!("{}-{n}", first.to_string_lossy()).into());
    for name in [first.to_owned()].into_iter().chain(numbered) {
        match above.new_folder(&name) {
            Ok(folder) => return Ok((folder, name)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}
