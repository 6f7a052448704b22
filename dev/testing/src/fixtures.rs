//! The snapshot files of the fixtures.
#![forbid(unsafe_code)]

use std::{
    fs,
    path::{Path, PathBuf},
};

use memreel_snapshot::{Snapshot, pickle};

use super::repository;

/// Returns a folder of fixtures.
#[must_use]
pub fn fixtures(folder: &str) -> PathBuf {
    repository("fixtures").join(folder)
}

/// Returns every pickle of a folder, by name.
#[must_use]
pub fn pickles(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "pickle"));
    paths.sort();
    assert!(!paths.is_empty(), "{} has no pickles", folder.display());
    paths
}

/// Returns every pickle of the fixtures.
#[must_use]
pub fn all_pickles() -> Vec<PathBuf> {
    ["torch-2.11/snapshots", "synthetic"].iter().flat_map(|folder| pickles(&fixtures(folder))).collect()
}

/// Returns the bytes of every pickle of the fixtures, each with its path.
#[must_use]
pub fn all_files() -> Vec<(String, Vec<u8>)> {
    all_pickles().iter().map(|path| (path.display().to_string(), fs::read(path).unwrap())).collect()
}

/// Returns the snapshot of every pickle of the fixtures, each with its path.
#[must_use]
pub fn snapshots() -> Vec<(String, Snapshot)> {
    let load = |(name, bytes): (String, Vec<u8>)| {
        let snapshot = pickle::from_slice(&bytes).unwrap_or_else(|error| panic!("{name}: {error}"));
        (name, snapshot)
    };
    all_files().into_iter().map(load).collect()
}

/// Returns the name of a file without its extension.
#[must_use]
pub fn name(path: &Path) -> String {
    path.file_stem().unwrap().to_string_lossy().into_owned()
}
