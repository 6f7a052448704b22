//! The small processes of a run, such as those that a script starts: many of them have one line and one folder.

#![forbid(unsafe_code)]

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use super::recorded::Recorded;
use crate::{bytes::Bytes, shown::Shown};

/// A helper has less than this at its peak.
const LEAST_BYTES: u64 = 1 << 20;

/// The most helpers that have lines of their own.
const MOST: usize = 8;

/// Moves the snapshots of helpers into a folder of their own, or one beside it if that is there, if they are many. `files` are
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
    let folder = new_folder(folder).ok()?;
    let mut n_moved = 0;
    for helper in &mut helpers {
        let Some(path) = &helper.path else { continue };
        let moved = folder.join(path.file_name().unwrap_or_default());
        // What cannot be moved stays where it is, with its line.
        if fs::rename(path, &moved).is_err() {
            continue;
        }
        let old = path.display().to_string();
        files.iter_mut().filter(|file| **file == old).for_each(|file| *file = moved.display().to_string());
        (helper.path, helper.is_helper) = (Some(moved), true);
        n_moved += 1;
    }
    let folder = folder.strip_prefix(".").unwrap_or(&folder);
    let least = Bytes(LEAST_BYTES);
    Some(format!("{n_moved} helpers, each with a peak of less than {least}: {}", Shown(&folder.join(""))))
}

/// Makes a folder, or one with a number behind its name: nothing of an earlier run is replaced.
fn new_folder(first: &Path) -> io::Result<PathBuf> {
    let numbered = (1_u32..1000).map(|n| {
        let name = first.file_name().unwrap_or_default().to_string_lossy();
        first.with_file_name(format!("{name}-{n}"))
    });
    for folder in [first.to_owned()].into_iter().chain(numbered) {
        match fs::create_dir(&folder) {
            Ok(()) => return Ok(folder),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}
