//! The snapshot files of the fixtures.

use std::{
    fs,
    path::{Path, PathBuf},
};

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
    [fixtures("torch-2.11/snapshots"), fixtures("synthetic")]
        .iter()
        .flat_map(|folder| pickles(folder))
        .collect()
}

/// Returns the name of a file without its extension.
pub(crate) fn name(path: &Path) -> String {
    path.file_stem().unwrap().to_string_lossy().into_owned()
}
