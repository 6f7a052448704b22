//! Memory that a program maps itself, by the functions that did.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    time::Duration,
};

use memreel::DeviceId;

use super::{HERE, cc, recorded, snapshots};

fn program(folder: &tempfile::TempDir) -> PathBuf {
    built(folder, "maps", &["-ldl", "-lpthread"])
}

/// Builds a program or a library of this folder.
fn built(folder: &tempfile::TempDir, name: &str, options: &[&str]) -> PathBuf {
    let built = folder.path().join(name);
    cc(&[&["-g", "-o", built.to_str().unwrap(), &format!("{HERE}/{name}.c")], options].concat());
    built
}

#[test]
fn each_range_has_the_stack_that_mapped_it() {
    let folder = tempfile::tempdir().unwrap();
    let n_ranges = assert_has_what_it_says(&program(&folder), &[], 8);
    assert!(n_ranges < 50, "neighbours are one range: {n_ranges}");
}

#[test]
fn what_a_call_gives_back_another_thread_may_have_before_it_returns() {
    let folder = tempfile::tempdir().unwrap();
    let another = built(&folder, "another", &["-shared", "-fPIC", "-ldl"]);
    assert_has_what_it_says(&built(&folder, "elsewhere", &[]), &[&another], 5);
}

/// Runs a program that prints the bytes that each function has mapped, and compares them; returns the number of ranges.
fn assert_has_what_it_says(program: &Path, last: &[&Path], n_lines: usize) -> usize {
    let tapes = tempfile::tempdir().unwrap();
    let done = recorded(program, tapes.path(), last).output().unwrap();
    assert!(done.status.success(), "{done:?}");
    let [snapshot] = &snapshots(tapes.path())[..] else { panic!("one process") };
    let (stacks, ranges) = snapshot.mapped(DeviceId(1)).or(snapshot.mapped(DeviceId(0))).unwrap();
    let (mut bytes, mut n_ranges) = (BTreeMap::<String, u64>::new(), 0);
    for of in ranges.iter().filter(|of| of.times_us.end == u64::MAX) {
        let frames = stacks.frames(Some(of.stack)).map(|frame| frame.name.to_string());
        let by =
            frames.filter(|name| !["map", "memreel"].contains(&&**name)).find(|name| !name.contains("map"));
        *bytes.entry(by.unwrap_or_default()).or_default() += of.range.end - of.range.start;
        n_ranges += 1;
    }
    let said = String::from_utf8(done.stdout).unwrap();
    for line in said.lines() {
        let (by, said) = line.split_once(": ").unwrap();
        assert_eq!(bytes.get(by).copied().unwrap_or(0), said.parse::<u64>().unwrap(), "{by}: {bytes:?}");
    }
    assert_eq!(said.lines().count(), n_lines);
    n_ranges
}

/// A report asks for memory, for locks of the C library and of the loader, which the handler may have stopped this thread with.
#[test]
fn a_handler_that_maps_waits_for_nothing_and_breaks_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let program = &program(&folder);
    std::thread::scope(|scope| {
        for work in ["allocate", "trim", "count", "threads", "libraries"] {
            scope.spawn(move || assert_ends(program, work));
        }
    });
}

fn assert_ends(program: &Path, work: &str) {
    let tapes = tempfile::tempdir().unwrap();
    let mut running = recorded(program, tapes.path(), &[]).arg(work).spawn().unwrap();
    for _ in 0..600 {
        if let Some(status) = running.try_wait().unwrap() {
            return assert!(status.success(), "{work}: {status}");
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    let _ = running.kill();
    panic!("{work}: it waits");
}
