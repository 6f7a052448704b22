//! Programs that fork end as they do without the libraries.

use std::{path::Path, process::Command};

use memreel::Recovered;

use super::{HERE, assert_valid, cc, recorded, snapshots};

/// Builds a program of one file.
fn built(folder: &Path, name: &str, more: &[&str]) -> String {
    let program = folder.join(name).to_str().unwrap().to_owned();
    let source = format!("{HERE}/{name}.c");
    cc(&[&["-O0", "-o", &program, &source, "-lpthread", "-ldl"], more].concat());
    program
}

/// Runs a program plain and recorded, with `last` behind the libraries; it ends in one way. Returns the folder of its tapes.
fn same(program: &str, words: &[&str], last: &[&Path]) -> tempfile::TempDir {
    let plain = Command::new(program).args(words).output().unwrap();
    assert!(plain.status.code().is_some(), "{plain:?}");
    let tapes = tempfile::tempdir().unwrap();
    let with = recorded(Path::new(program), tapes.path(), last).args(words).output().unwrap();
    assert_eq!(with, plain);
    tapes
}

#[test]
fn a_child_may_fork_again_before_it_allocates() {
    let folder = tempfile::tempdir().unwrap();
    let tapes = same(&built(folder.path(), "again", &[]), &[], &[]);
    snapshots(tapes.path()).iter().for_each(assert_valid);
}

/// Builds the library whose handlers wait, and the program that forks under them.
fn waiting(folder: &Path) -> (String, [String; 1]) {
    let library = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    for name in ["libwaits.so", "libunloaded.so"] {
        cc(&["-O0", "-shared", "-fPIC", "-o", &library(name), &format!("{HERE}/waits.c"), "-lpthread"]);
    }
    let place = ["-L", folder.to_str().unwrap(), "-lwaits", &format!("-Wl,-rpath,{}", folder.display())];
    (built(folder, "waiting", &place), [library("libunloaded.so")])
}

/// What the other threads allocate meanwhile is recorded.
#[test]
fn handlers_of_another_library_may_wait_for_threads_that_allocate() {
    let folder = tempfile::tempdir().unwrap();
    let (program, [unloaded]) = waiting(folder.path());
    let tapes = same(&program, &[&unloaded], &[]);
    let recovered =
        std::fs::read_dir(tapes.path()).unwrap().map(|tape| Recovered::read(tape.unwrap().path()));
    assert!(recovered.map(|tape| tape.unwrap()).all(|tape| tape.snapshot().device_traces.len() > 1));
}
