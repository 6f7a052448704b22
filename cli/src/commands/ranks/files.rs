//! The files of many ranks: paths, patterns and folders.

#![forbid(unsafe_code)]

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::{exit::Exit, failure::Failure};

/// The endings of files that can be snapshots.
const ENDINGS: [&str; 4] = ["pickle", "pkl", "json", "tape"];

/// Returns the files that paths, folders and patterns name, each once.
pub(super) fn expanded(paths: &[PathBuf]) -> Result<Vec<PathBuf>, Failure> {
    let mut files = Vec::new();
    for path in paths {
        if path.is_dir() {
            files.extend(in_folder(path)?);
        } else if !path.exists() && has_pattern(path) {
            files.extend(matching(path)?);
        } else {
            files.push(path.clone());
        }
    }
    let mut seen = std::collections::BTreeSet::new();
    files.retain(|file| file == Path::new("-") || seen.insert(file.clone()));
    Ok(files)
}

fn has_pattern(path: &Path) -> bool {
    path.to_string_lossy().contains(['*', '?', '['])
}

fn in_folder(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let entries = fs::read_dir(folder).map_err(|error| unreadable(folder, &error.to_string()))?;
    let is_snapshot =
        |path: &PathBuf| path.extension().is_some_and(|ending| ENDINGS.iter().any(|known| ending == *known));
    let mut found: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| is_snapshot(path) && path.is_file())
        .collect();
    if found.is_empty() {
        let endings = ENDINGS.join(", ");
        return Err(unreadable(
            folder,
            &format!("the folder has no snapshots (files that end in {endings})"),
        ));
    }
    found.sort();
    Ok(found)
}

fn matching(pattern: &Path) -> Result<Vec<PathBuf>, Failure> {
    let text = pattern.to_string_lossy();
    let paths = glob::glob(&text).map_err(|error| Failure::usage(format!("{text}: {error}")))?;
    let found: Vec<PathBuf> = paths.filter_map(Result::ok).filter(|path| path.is_file()).collect();
    if found.is_empty() {
        return Err(unreadable(pattern, "no file has such a name"));
    }
    Ok(found)
}

fn unreadable(path: &Path, why: &str) -> Failure {
    Failure::Message(Exit::Unreadable, format!("{}: {why}", path.display()))
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
            let files = expanded(paths).unwrap();
            files.iter().map(|file| file.file_name().unwrap().to_string_lossy().into_owned()).collect()
        };
        let of = |name: &str| folder.path().join(name);
        assert_eq!(names(&[folder.path().to_owned()]), ["a.pickle", "b.pickle", "c.tape", "e.json"]);
        assert_eq!(names(&[of("*.pickle"), of("a.pickle")]), ["a.pickle", "b.pickle"]);
        assert_eq!(names(&[of("d.txt"), of("missing.pickle")]), ["d.txt", "missing.pickle"]);
        let empty = tempfile::tempdir().unwrap();
        assert!(expanded(&[empty.path().to_owned()]).is_err() && expanded(&[of("x*")]).is_err());
    }
}
