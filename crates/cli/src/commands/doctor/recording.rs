//! Checks whether programs can be recorded here, and their heap and Python frames.

#![forbid(unsafe_code)]

use std::{
    ffi::{OsStr, OsString},
    fs,
    os::unix::fs::PermissionsExt,
    path::Path,
};

use super::{
    finding::Finding,
    trial::{Recorded, loads},
};
use crate::{
    run::{
        libraries::Libraries,
        preloadable::{in_path, why_not},
    },
    text::ShownPath,
};

/// Checks the libraries that `memreel record` preloads.
pub(super) fn libraries() -> Finding {
    const PART: &str = "record";
    let found = match Libraries::find(false) {
        Ok(found) => found,
        Err(failure) => return Finding::told(PART, &failure.to_string()).needed(),
    };
    let Some(library) = found.preloaded().pop() else {
        return Finding::unknown(PART, "it has no library", "").needed();
    };
    let library = Path::new(&library);
    let shown = ShownPath(&library);
    match loads(library) {
        Ok(Ok(())) => Finding::works(PART, format!("the dynamic loader can preload {shown}")),
        Ok(Err(why)) => Finding::fails(
            PART,
            why,
            "build memreel on this machine, or on one whose glibc is not newer; memreel needs glibc",
        ),
        Err(error) => Finding::unknown(PART, format!("{shown} was found, but not tested: {error}"), ""),
    }
    .needed()
}

/// A program of the user's.
pub(super) fn program(program: &OsStr) -> Finding {
    const PART: &str = "this program";
    let shown = ShownPath(&program);
    let Some(path) = in_path(program) else {
        return Finding::fails(PART, format!("there is no program {shown}"), "give its path").needed();
    };
    if fs::metadata(&path).is_ok_and(|found| found.permissions().mode() & 0o111 == 0) {
        let what_to_do = "make it executable, or record the program that runs it";
        return Finding::fails(PART, format!("{} is not executable", ShownPath(&path)), what_to_do).needed();
    }
    match why_not(program) {
        None => Finding::works(PART, format!("{} can be recorded", ShownPath(&path))),
        Some(unrecorded) => Finding::fails(
            PART,
            unrecorded.why,
            "record another build of it, or a program that it starts; this one cannot be recorded",
        ),
    }
    .needed()
}

/// A recording of a heap: this program's, when it prints its version.
pub(super) fn heap(memreel: &[OsString]) -> Finding {
    const PART: &str = "record --heap";
    if let Err(failure) = Libraries::find(true) {
        return Finding::told(PART, &failure.to_string());
    }
    let program: Vec<OsString> = memreel.iter().cloned().chain(["--version".into()]).collect();
    match Recorded::of(memreel, &program) {
        Err(why) => Finding::fails(PART, format!("a trial run failed: {why}"), ""),
        Ok(recorded) => match recorded.snapshots().map(|snapshot| snapshot.n_events()).max() {
            Some(n_events) if n_events > 0 => {
                Finding::works(PART, format!("a trial run recorded {n_events} events"))
            }
            _ => Finding::fails(PART, format!("a trial run recorded nothing: {}", recorded.said.trim()), ""),
        },
    }
}

/// The frames of Python's functions.
pub(super) fn python(memreel: &[OsString]) -> Finding {
    const PART: &str = "Python frames";
    const FUNCTION: &str = "memreel_doctor";
    let Some(python) = in_path("python3".as_ref()) else {
        return Finding::unknown(PART, "python3 is not in PATH", "");
    };
    match Libraries::find(true) {
        Err(failure) => return Finding::told(PART, &failure.to_string()),
        Ok(found) => {
            if let Err(why) = found.hook() {
                return Finding::told(PART, why);
            }
        }
    }
    let script = format!("def {FUNCTION}():\n    return bytearray(1 << 20)\nkept = {FUNCTION}()");
    let shown = python.display().to_string();
    let recorded = match Recorded::of(memreel, &[python.into(), "-c".into(), script.into()]) {
        Err(why) => return Finding::fails(PART, format!("a trial run with {shown} failed: {why}"), ""),
        Ok(recorded) => recorded,
    };
    let has = |snapshot: &memreel_snapshot::Snapshot| {
        snapshot.stacks.all_frames().any(|frame| &*frame.name == FUNCTION)
    };
    if recorded.snapshots().any(|snapshot| has(&snapshot)) {
        return Finding::works(PART, format!("recorded in a trial run with {shown}"));
    }
    let why =
        recorded.said.lines().find(|line| line.contains("ython")).unwrap_or("it recorded only native frames");
    Finding::fails(
        PART,
        format!(
            "a trial run with {shown} recorded no Python frames: {}",
            why.trim_start_matches("memreel: ")
        ),
        "use a final release of CPython 3.9 to 3.15 (docs/python.md)",
    )
}
