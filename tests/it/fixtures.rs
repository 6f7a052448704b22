//! The snapshot files of the fixtures.

use std::{
    fs,
    path::{Path, PathBuf},
};

use memreel::{Snapshot, pickle};

/// Returns a folder of fixtures.
pub(crate) fn fixtures(folder: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(folder)
}

/// Returns every pickle of a folder, by name.
pub(crate) fn pickles(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "pickle"));
    paths.sort();
    assert!(!paths.is_empty(), "{} has no pickles", folder.display());
    paths
}

/// Returns every pickle of the fixtures.
pub(crate) fn all_pickles() -> Vec<PathBuf> {
    ["torch-2.11/snapshots", "synthetic"].iter().flat_map(|folder| pickles(&fixtures(folder))).collect()
}

/// Returns the bytes of every pickle of the fixtures, each with its path.
pub(crate) fn all_files() -> Vec<(String, Vec<u8>)> {
    all_pickles().iter().map(|path| (path.display().to_string(), fs::read(path).unwrap())).collect()
}

/// Returns the snapshot of every pickle of the fixtures, each with its path.
pub(crate) fn snapshots() -> Vec<(String, Snapshot)> {
    let load = |(name, bytes): (String, Vec<u8>)| {
        let snapshot = pickle::from_slice(&bytes).unwrap_or_else(|error| panic!("{name}: {error}"));
        (name, snapshot)
    };
    all_files().into_iter().map(load).collect()
}

/// Returns the name of a file without its extension.
pub(crate) fn name(path: &Path) -> String {
    path.file_stem().unwrap().to_string_lossy().into_owned()
}
