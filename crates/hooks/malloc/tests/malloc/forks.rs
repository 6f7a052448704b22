//! Programs that fork end as they do without the libraries.

use std::{fs, path::Path, process::Command};

use memreel::{Recovered, Snapshot};
use tempfile::TempDir;

use super::{HERE, assert_valid, cc, live, printed, recorded};

/// Builds a program of one file.
fn built(folder: &Path, name: &str, more: &[&str]) -> String {
    let program = folder.join(name).to_str().unwrap().to_owned();
    let source = format!("{HERE}/{name}.c");
    cc(&[&["-O0", "-o", &program, &source, "-lpthread", "-ldl"], more].concat());
    program
}

/// Runs a program plain and recorded, with `last` behind the libraries; it ends in one way. Returns the folder of its tapes.
fn same(program: &str, words: &[&str], last: &[&Path]) -> TempDir {
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
    some(&tapes).for_each(|snapshot| assert_valid(&snapshot));
}

/// What some of the processes recorded; names of all of them take seconds.
fn some(tapes: &TempDir) -> impl Iterator<Item = Snapshot> {
    let paths = fs::read_dir(tapes.path()).unwrap().map(|tape| tape.unwrap().path());
    paths.take(12).map(|tape| Recovered::read(tape).unwrap().snapshot())
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
    assert!(some(&tapes).all(|snapshot| snapshot.device_traces.iter().any(|trace| !trace.is_empty())));
}

/// While a library is opened its constructor may wait for threads, which then report without the lock of the loader.
#[test]
fn a_constructor_may_wait_for_threads_and_children_that_allocate() {
    let folder = tempfile::tempdir().unwrap();
    let program = built(folder.path(), "opening", &[]);
    let library = folder.path().join("libopened.so").to_str().unwrap().to_owned();
    cc(&["-O0", "-DLIBRARY", "-shared", "-fPIC", "-o", &library, &format!("{HERE}/opening.c"), "-lpthread"]);
    let tapes = same(&program, &[&library], &[]);
    let counted = printed(&Command::new(program).arg(library).output().unwrap());
    let found: Vec<_> = some(&tapes).map(|snapshot| live(&snapshot, 100_000)).collect();
    assert!(counted.0 == 10 && found.contains(&counted), "{counted:?} {found:?}");
}

/// How many programs one process runs, each in a child of its own.
const AT_ONCE: u64 = 25;

/// Forks of all kinds, threads, handlers of signals and of forks, allocations and `exec`, at random. `MEMREEL_FORKING` is the
/// number of programs.
#[test]
fn random_programs_end_as_without_it() {
    let folder = tempfile::tempdir().unwrap();
    let program = built(folder.path(), "forking", &[]);
    let n: u64 = std::env::var("MEMREEL_FORKING").map_or(AT_ONCE, |n| n.parse().unwrap());
    for first in (1..=n).step_by(AT_ONCE as usize) {
        same(&program, &[&first.to_string(), &AT_ONCE.to_string()], &[]);
    }
}
