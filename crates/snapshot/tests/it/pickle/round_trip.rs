//! Files of every PyTorch are read, and written so that CPython reads the same.

use std::path::{Path, PathBuf};

use memreel_snapshot::{Snapshot, pickle, validate};

use super::python;
use crate::fixtures::{all_pickles, fixtures, name, pickles};

/// The folder of real dumps: the gate gives more of them.
fn real_dumps() -> PathBuf {
    std::env::var_os("MEMREEL_SNAPSHOTS").map_or_else(|| fixtures("torch-2.11/snapshots"), PathBuf::from)
}

/// Writes each file again and checks that it reads equal; returns each file with the one written.
fn rewritten(originals: &[PathBuf]) -> Vec<(PathBuf, PathBuf)> {
    let rewrite = |original: &PathBuf| {
        let ours = crate::written(&format!("rewritten-{}.pickle", name(original)));
        let snapshot = pickle::load(original).unwrap_or_else(|error| panic!("{}: {error}", name(original)));
        pickle::save(&snapshot, &ours).unwrap();
        assert_eq!(json(&snapshot), json(&pickle::load(&ours).unwrap()), "{}", name(original));
        (original.clone(), ours)
    };
    originals.iter().map(rewrite).collect()
}

fn json(snapshot: &Snapshot) -> serde_json::Value {
    serde_json::to_value(snapshot).unwrap()
}

#[test]
fn real_dumps_break_no_rule() {
    for path in &pickles(&real_dumps()) {
        let findings = validate::check_file(path).unwrap();
        let errors: Vec<_> = findings.iter().filter(|finding| finding.severity.letter() == 'E').collect();
        assert!(errors.is_empty(), "{}: {errors:?}", name(path));
    }
}

#[test]
fn every_layout_reads_equal_when_written_again() {
    rewritten(&pickles(&fixtures("synthetic")));
}

/// Prints how many files are equal. Where CPython is not installed, memreel's own reader is the only judge.
#[test]
fn snapshots_written_again_are_equal() {
    let pairs = rewritten(&pickles(&real_dumps()));
    if !python::is_installed() {
        memreel_testing::say(&format!("skipped: no python3 to compare {} snapshots with", pairs.len()));
        return;
    }
    let answers = python::compare(&pairs);
    let n_equal = answers.iter().filter(|answer| *answer == "equal").count();
    memreel_testing::say(&format!("{n_equal} of {} snapshots equal", answers.len()));
    assert_eq!(n_equal, answers.len(), "{:#?}", pairs.iter().zip(answers).collect::<Vec<_>>());
}

#[test]
#[ignore = "needs python3"]
fn cpython_reads_every_rewritten_layout_equal() {
    let pairs = rewritten(&pickles(&fixtures("synthetic")));
    let different: Vec<_> =
        pairs.iter().zip(python::compare(&pairs)).filter(|(_, answer)| answer != "equal").collect();
    assert!(different.is_empty(), "{different:#?}");
}

#[test]
#[ignore = "needs python3"]
fn json_is_what_cpython_makes_of_the_pickle() {
    let program = "import json, pickle, sys\nfor path in sys.argv[1:]: print(json.dumps(pickle.load(open(path, 'rb'))))";
    let paths: Vec<_> =
        all_pickles().into_iter().filter(|path| !path.ends_with("beyond-javascript.pickle")).collect();
    let arguments: Vec<&Path> = paths.iter().map(PathBuf::as_path).collect();
    let printed = python::run(program, &arguments);
    assert_eq!(printed.lines().count(), paths.len());
    for (path, theirs) in paths.iter().zip(printed.lines()) {
        let theirs: serde_json::Value = serde_json::from_str(theirs).unwrap();
        let ours = json(&pickle::load(path).unwrap());
        // As texts, because the order of keys counts.
        assert_eq!(ours.to_string(), theirs.to_string(), "{}", path.display());
    }
}
