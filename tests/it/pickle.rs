//! Pickles: every layout is read, and written back so that CPython sees no difference.

use std::{
    fs,
    path::{Path, PathBuf},
};

use memreel::{pickle, snapshot::Snapshot, validate};

use crate::python;

/// A folder of fixtures.
pub(crate) fn fixtures(folder: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(folder)
}

/// Every pickle of a folder, by name.
pub(crate) fn pickles(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "pickle"));
    paths.sort();
    assert!(!paths.is_empty(), "{} has no pickles", folder.display());
    paths
}

/// Every pickle of the fixtures.
pub(crate) fn all_pickles() -> Vec<PathBuf> {
    [fixtures("torch-2.11/snapshots"), fixtures("synthetic")]
        .iter()
        .flat_map(|folder| pickles(folder))
        .collect()
}

fn name(path: &Path) -> String {
    path.file_stem().unwrap().to_string_lossy().into_owned()
}

/// Writes each file again, checks that it reads equal, and asks CPython whether both are the same.
fn round_trip(originals: &[PathBuf]) -> Option<Vec<(String, String)>> {
    let pairs: Vec<_> = originals
        .iter()
        .map(|original| {
            let ours = crate::written(&format!("rewritten-{}.pickle", name(original)));
            let snapshot =
                pickle::load(original).unwrap_or_else(|error| panic!("{}: {error}", name(original)));
            pickle::save(&snapshot, &ours).unwrap();
            assert_eq!(json(&snapshot), json(&pickle::load(&ours).unwrap()), "{}", name(original));
            (original.clone(), ours)
        })
        .collect();
    if !python::is_here() {
        crate::say(&format!("skipped: no python3 to compare {} snapshots with", originals.len()));
        return None;
    }
    Some(originals.iter().map(|path| name(path)).zip(python::compare(&pairs)).collect())
}

fn json(snapshot: &Snapshot) -> serde_json::Value {
    serde_json::to_value(snapshot).unwrap()
}

#[test]
fn snapshot_round_trip() {
    let folder =
        std::env::var_os("MEMREEL_SNAPSHOTS").map_or_else(|| fixtures("torch-2.11/snapshots"), PathBuf::from);
    let originals = pickles(&folder);
    for path in &originals {
        let findings = validate::check_file(path).unwrap();
        let errors: Vec<_> = findings.iter().filter(|finding| finding.severity.letter() == 'E').collect();
        assert!(errors.is_empty(), "{}: {errors:?}", name(path));
    }
    let Some(answers) = round_trip(&originals) else { return };
    let n_equal = answers.iter().filter(|(_, answer)| answer == "equal").count();
    crate::say(&format!("{n_equal} of {} snapshots equal", answers.len()));
    assert_eq!(n_equal, answers.len(), "{answers:#?}");
}

#[test]
fn every_synthetic_layout_round_trips() {
    let Some(answers) = round_trip(&pickles(&fixtures("synthetic"))) else { return };
    let different: Vec<_> = answers.iter().filter(|(_, answer)| answer != "equal").collect();
    assert!(different.is_empty(), "{different:#?}");
}
