//! Finds files in shared memory (`/dev/shm`) that a run leaves. They take memory until they are removed or the machine
//! restarts.

#![forbid(unsafe_code)]

use std::{
    collections::BTreeSet,
    fs::{self, DirEntry, Metadata},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use crate::text::{Bytes, ShownPath, clean, count, owner_table::LEAST_ADVICE_BYTES};

/// Where `shm_open` creates its files.
const FOLDER: &str = "/dev/shm";

/// Folders are read so deep, and not more files than this.
const MOST_DEEP: usize = 3;
const MOST_FILES: usize = 100_000;

/// The most names of a line.
const MOST_NAMES: usize = 3;

/// A file by its device and its number there.
type Identity = (u64, u64);

/// The files that were there before a run.
#[derive(Debug)]
pub(super) struct SharedFiles {
    folder: PathBuf,
    before: BTreeSet<Identity>,
}

/// A file that the run left, or something else that ran meanwhile.
struct Left {
    path: PathBuf,
    bytes: u64,
    identity: Identity,
}

impl SharedFiles {
    pub(super) fn before() -> SharedFiles {
        let folder = PathBuf::from(FOLDER);
        let before = files(&folder).iter().map(|left| left.identity).collect();
        SharedFiles { folder, before }
    }

    /// Returns a line about the files that exist now, did not exist before, and are open in no process.
    pub(super) fn left(&self) -> Option<String> {
        let mut left = files(&self.folder);
        let user = rustix::process::geteuid().as_raw();
        let is_own = |path: &Path| fs::symlink_metadata(path).is_ok_and(|of| of.uid() == user);
        left.retain(|file| file.bytes > 0 && !self.before.contains(&file.identity) && is_own(&file.path));
        if sum(&left) < LEAST_ADVICE_BYTES {
            return None;
        }
        // Only now: this looks at all processes.
        let open = open_files();
        left.retain(|file| !open.contains(&file.identity));
        left.sort_by_key(|file| std::cmp::Reverse(file.bytes));
        (sum(&left) >= LEAST_ADVICE_BYTES).then(|| line(&self.folder, &left))
    }
}

fn sum(files: &[Left]) -> u64 {
    files.iter().map(|file| file.bytes).sum()
}

fn line(folder: &Path, left: &[Left]) -> String {
    let name = |file: &Left| format!("{} ({})", clean(&file.path.display().to_string()), Bytes(file.bytes));
    let mut names: Vec<String> = left.iter().take(MOST_NAMES).map(name).collect();
    if left.len() > MOST_NAMES {
        names.push(format!("{} more", left.len() - MOST_NAMES));
    }
    format!(
        "{} has {} in {} created during the run that no process has open, and keeps them until they are \
         removed: {}",
        ShownPath(&folder),
        Bytes(sum(left)),
        count(left.len(), "file"),
        names.join(", ")
    )
}

/// Returns the files in a folder and the folders below, with what they have in memory.
fn files(folder: &Path) -> Vec<Left> {
    let mut all = Vec::new();
    add_files(folder, MOST_DEEP, &mut all);
    all
}

fn add_files(folder: &Path, n_deep: usize, all: &mut Vec<Left>) {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    for entry in entries {
        // This does not follow a link.
        let Ok(metadata) = entry.metadata() else { continue };
        if metadata.is_dir() && n_deep > 0 {
            add_files(&entry.path(), n_deep - 1, all);
        } else if metadata.is_file() && all.len() < MOST_FILES {
            all.push(left(&entry, &metadata));
        }
    }
}

fn left(entry: &DirEntry, metadata: &Metadata) -> Left {
    Left { path: entry.path(), bytes: metadata.blocks() * 512, identity: (metadata.dev(), metadata.ino()) }
}

/// Returns the files that some process has open or mapped, as far as this one may see it.
fn open_files() -> BTreeSet<Identity> {
    let mut open = BTreeSet::new();
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let is_process = |entry: &DirEntry| entry.file_name().as_encoded_bytes().iter().all(u8::is_ascii_digit);
    for process in processes.filter(is_process) {
        let process = process.path();
        let files = fs::read_dir(process.join("fd")).into_iter().flatten().flatten();
        open.extend(files.filter_map(|file| fs::metadata(file.path()).ok()).map(|of| (of.dev(), of.ino())));
        let maps = fs::read(process.join("maps")).unwrap_or_default();
        open.extend(String::from_utf8_lossy(&maps).lines().filter_map(mapped));
    }
    open
}

/// Returns the file of a line of `maps`, such as `7f00-7f10 rw-s 00000000 00:1a 42   /dev/shm/a`.
fn mapped(line: &str) -> Option<Identity> {
    let mut words = line.split_ascii_whitespace().skip(3);
    let (major, minor) = words.next()?.split_once(':')?;
    let device = |word| u32::from_str_radix(word, 16).ok();
    let identity = (rustix::fs::makedev(device(major)?, device(minor)?), words.next()?.parse().ok()?);
    (identity.1 != 0).then_some(identity)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_open_is_not_left() {
        let folder = tempfile::tempdir().unwrap();
        let make = |name: &str| fs::write(folder.path().join(name), vec![1; 20 << 20]).unwrap();
        make("before");
        let before = files(folder.path()).iter().map(|left| left.identity).collect();
        let shared = SharedFiles { folder: folder.path().to_owned(), before };
        assert_eq!(shared.left(), None);
        make("a\nb");
        let line = shared.left().unwrap();
        assert!(line.contains("has 20.00 MiB in 1 file") && !line.contains('\n'), "{line}");
        let open = fs::File::open(folder.path().join("a\nb")).unwrap();
        assert_eq!(shared.left(), None, "open");
        drop(open);
        assert!(shared.left().is_some());
    }

    #[test]
    fn a_mapped_file_is_known_by_its_device() {
        let line = "7f00-7f10 rw-s 00000000 fe:1a 42                   /dev/shm/a b";
        assert_eq!(mapped(line), Some((rustix::fs::makedev(0xfe, 0x1a), 42)));
        assert_eq!(mapped("7f00-7f10 rw-p 00000000 00:00 0 "), None);
    }
}
