//! Finds the files that arguments name: paths, patterns, folders and run files.

#![forbid(unsafe_code)]

use std::{
    fs,
    path::{Component, Path, PathBuf},
};

use super::{Opener, is_stdin, run_file::RunFile};
use crate::failure::Failure;

/// The endings of files that can be snapshots.
const ENDINGS: [&str; 4] = ["pickle", "pkl", "json", "tape"];

/// The files that the arguments name.
#[derive(Debug, Default)]
pub(crate) struct NamedFiles {
    pub(crate) files: Vec<PathBuf>,
    /// The folders and patterns without a file, each with the reason.
    pub(crate) broken: Vec<(PathBuf, String)>,
}

/// Returns the files that paths, folders and patterns name. Names of a question's in-memory snapshots are kept as they
/// are.
pub(crate) fn named(paths: &[PathBuf], opener: &Opener) -> Result<NamedFiles, Failure> {
    let mut named = NamedFiles::default();
    for path in paths {
        let found = if opener.snapshot(path).is_some() {
            Ok(vec![path.clone()])
        } else if RunFile::is_named_so(path) && path.is_file() {
            RunFile::read(path).map(|run| run.snapshots(path))
        } else if path.is_dir() {
            in_folder(path)
        } else if !path.exists() && has_pattern(path) {
            matching(path)?
        } else {
            Ok(vec![path.clone()])
        };
        match found {
            Ok(files) => named.files.extend(files),
            Err(why) => named.broken.push((path.clone(), why)),
        }
    }
    Ok(named)
}

impl NamedFiles {
    /// Keeps each file once.
    ///
    /// # Errors
    /// Standard input is named several times.
    pub(crate) fn once(mut self) -> Result<NamedFiles, Failure> {
        if self.files.iter().filter(|file| is_stdin(file)).count() > 1 {
            return Err(Failure::usage("standard input holds only one snapshot; give `-` only once"));
        }
        let mut seen = std::collections::BTreeSet::new();
        self.files.retain(|file| seen.insert(plain(file)));
        Ok(self)
    }
}

/// Returns a path without the parts `.`, in which names of one file can differ.
fn plain(path: &Path) -> PathBuf {
    path.components().filter(|part| *part != Component::CurDir).collect()
}

fn has_pattern(path: &Path) -> bool {
    path.to_string_lossy().contains(['*', '?', '['])
}

/// Returns the snapshots of a folder, or why there are none.
fn in_folder(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let entries = fs::read_dir(folder).map_err(|error| format!("cannot be read: {error}"))?;
    let is_snapshot =
        |path: &PathBuf| path.extension().is_some_and(|ending| ENDINGS.iter().any(|known| ending == *known));
    let mut found: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| is_snapshot(path) && path.is_file())
        .collect();
    if found.is_empty() {
        let endings = ENDINGS.join(", ");
        return Err(format!("it is a folder without snapshots (files that end in {endings})"));
    }
    found.sort();
    Ok(found)
}

/// Returns the files that match a pattern, or why there are none. An invalid pattern is a usage error.
fn matching(pattern: &Path) -> Result<Result<Vec<PathBuf>, String>, Failure> {
    let text = pattern.to_string_lossy();
    let paths = glob::glob(&text).map_err(|error| Failure::usage(format!("{text}: {error}")))?;
    let found: Vec<PathBuf> = paths.filter_map(Result::ok).filter(|path| path.is_file()).collect();
    Ok(if found.is_empty() { Err("no files match this pattern".to_owned()) } else { Ok(found) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_and_patterns_become_files() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["b.pickle", "a.pickle", "c.tape", "d.txt", "e.json"] {
            fs::write(folder.path().join(name), "").unwrap();
        }
        fs::create_dir(folder.path().join("f.pickle")).unwrap();
        let names = |paths: &[PathBuf]| -> Vec<String> {
            let named = named(paths, &Opener::Files).and_then(NamedFiles::once).unwrap();
            assert!(named.broken.is_empty(), "{named:?}");
            named.files.iter().map(|file| file.file_name().unwrap().to_string_lossy().into_owned()).collect()
        };
        let of = |name: &str| folder.path().join(name);
        assert_eq!(names(&[folder.path().to_owned()]), ["a.pickle", "b.pickle", "c.tape", "e.json"]);
        assert_eq!(names(&[of("*.pickle"), of("a.pickle")]), ["a.pickle", "b.pickle"]);
        assert_eq!(names(&[of("d.txt"), of("missing.pickle")]), ["d.txt", "missing.pickle"]);
        assert_eq!(names(&[of("a.pickle"), of("./a.pickle"), of("./././a.pickle")]), ["a.pickle"]);
        let empty = tempfile::tempdir().unwrap();
        let none = named(&[empty.path().to_owned(), of("x*"), of("a.pickle")], &Opener::Files).unwrap();
        assert_eq!((none.broken.len(), none.files.len()), (2, 1), "the others are read");
        assert!(
            named(&[of("[")], &Opener::Files).is_err()
                && named(&["-".into(), "-".into()], &Opener::Files).unwrap().once().is_err()
        );
    }
}
