//! The files of many ranks: paths, patterns and folders, and the rank that a file's name has.

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

/// Returns the rank that a file's name has: the digits behind the last `rank`, as in `run-rank3-811.pickle`.
pub(super) fn rank(path: &Path) -> Option<u64> {
    let name = path.file_stem()?.to_str()?.to_ascii_lowercase();
    let (_, behind) = name.rsplit_once("rank")?;
    let behind = behind.trim_start_matches(['-', '_', '.', '=']);
    let end = behind.find(|c: char| !c.is_ascii_digit()).unwrap_or(behind.len());
    behind[..end].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rank_is_in_the_name() {
        for (name, expected) in [
            ("rank3.pickle", Some(3)),
            ("runs/job-rank12-4711.pickle", Some(12)),
            ("rank_0007.json", Some(7)),
            ("RANK-5.tape", Some(5)),
            ("franks.pickle", None),
            ("snapshot.pickle", None),
            ("rank99999999999999999999.pickle", None),
        ] {
            assert_eq!(rank(Path::new(name)), expected, "{name}");
        }
    }

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
