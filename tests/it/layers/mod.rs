//! The diagram of ARCHITECTURE.md as a test: which room may import which, circles of imports in every package
//! (`circles`), where unsafe code is (`unsafety`), where the links of the packaged pages lead and which files unit tests
//! use (`package`), and where the sizes of segments are (`sizes`).
//!
//! Each row names a room and the rooms it may import, all of them from rows above its own, so that the
//! table cannot hold a circle. Imports are those of the code, followed to the room that defines the item, and those of
//! the text: a link in a comment counts too, because a lower room should not mention a higher one.
#![forbid(unsafe_code)]

mod circles;
mod module;
mod one_build;
mod package;
mod packages;
mod sizes;
mod tree;
mod unsafety;

use std::{
    fs,
    path::{Path, PathBuf},
};

use tree::Tree;

const ROOMS: &[(&str, &[&str])] = &[
    ("sync", &[]),
    ("fork", &["sync"]),
    ("guard", &["sync", "fork"]),
    ("bytes", &[]),
    ("notice", &[]),
    ("event", &[]),
    ("error", &["bytes", "event"]),
    ("inventory", &["event"]),
    ("usage", &["event"]),
    ("finding", &[]),
    ("torch", &["inventory"]),
    ("seeded", &[]),
    ("device", &["fork", "error", "event"]),
    ("tape", &["fork", "notice", "error", "event", "inventory", "usage", "seeded"]),
    ("stack", &["sync", "fork", "guard", "event", "tape"]),
    ("python", &["fork", "error", "stack"]),
    (
        "recorder",
        &[
            "sync",
            "fork",
            "guard",
            "notice",
            "error",
            "event",
            "inventory",
            "usage",
            "torch",
            "seeded",
            "tape",
            "stack",
            "python",
        ],
    ),
    ("heap", &["sync", "fork", "event", "inventory", "usage", "recorder"]),
    ("wrap", &["event", "inventory", "recorder"]),
    ("trigger", &["fork", "notice", "error", "recorder"]),
    (
        "integrate",
        &["fork", "error", "event", "inventory", "usage", "device", "stack", "python", "recorder", "heap"],
    ),
    ("allocator", &["sync", "fork", "error", "event", "inventory", "torch", "device", "recorder"]),
    ("buffer", &["error", "event", "allocator"]),
    ("cuda", &["fork", "error", "event", "device", "allocator"]),
    (
        "snapshot",
        &["seeded", "event", "inventory", "usage", "finding", "torch", "stack", "recorder", "trigger"],
    ),
    ("history", &["seeded", "event", "inventory", "snapshot"]),
    ("pickle", &["seeded", "error", "event", "inventory", "finding", "snapshot"]),
    (
        "validate",
        &["seeded", "error", "event", "inventory", "finding", "torch", "snapshot", "history", "pickle"],
    ),
    ("analysis", &["seeded", "bytes", "event", "inventory", "usage", "torch", "snapshot", "history"]),
    (
        "rewrite",
        &["seeded", "error", "event", "inventory", "usage", "torch", "snapshot", "history", "analysis"],
    ),
    ("export", &["seeded", "event", "snapshot", "history", "analysis"]),
    (
        "whatif",
        &[
            "seeded",
            "error",
            "event",
            "inventory",
            "torch",
            "device",
            "recorder",
            "allocator",
            "snapshot",
            "history",
        ],
    ),
    ("oom", &["bytes", "snapshot", "analysis", "whatif"]),
    (
        "reel",
        &[
            "notice",
            "error",
            "event",
            "device",
            "recorder",
            "trigger",
            "allocator",
            "cuda",
            "heap",
            "inventory",
            "snapshot",
            "pickle",
            "analysis",
            "rewrite",
            "oom",
        ],
    ),
    ("recover", &["error", "inventory", "tape", "stack", "recorder", "snapshot", "pickle", "rewrite"]),
    ("process", &["error", "recorder", "trigger", "heap", "allocator", "snapshot", "reel"]),
];

/// A path below the repository's root.
fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn src() -> PathBuf {
    repository("src")
}

#[test]
fn arrows_point_down() {
    for (i, (room, allowed)) in ROOMS.iter().enumerate() {
        for target in *allowed {
            assert!(ROOMS[..i].iter().any(|(above, _)| above == target), "{room} -> {target} points up");
        }
    }
}

#[test]
fn rooms_import_only_what_the_diagram_allows() {
    let mut n_files = 0;
    for (room, allowed) in ROOMS {
        for (path, text) in files_of(room) {
            n_files += 1;
            for name in text.split("crate::").skip(1).flat_map(names_of) {
                let known = ROOMS.iter().any(|(other, _)| *other == name);
                let fine = !known || name == *room || allowed.contains(&name.as_str());
                assert!(fine, "{path}: {room} may not import {name}");
            }
        }
    }
    assert!(n_files >= ROOMS.len(), "only {n_files} files for {} rooms: src was not found", ROOMS.len());
}

#[test]
fn every_module_is_in_the_diagram() {
    let lib = fs::read_to_string(src().join("lib.rs")).unwrap();
    let modules = lib
        .split("#[cfg(test)]")
        .enumerate()
        .flat_map(|(i, part)| part.lines().skip(if i == 0 { 0 } else { 2 }))
        .filter_map(|line| line.strip_prefix("pub mod ").or(line.strip_prefix("mod "))?.strip_suffix(';'));
    let missing: Vec<_> = modules.filter(|module| !ROOMS.iter().any(|(room, _)| room == module)).collect();
    assert!(missing.is_empty(), "{missing:?} are not in the diagram");
}

#[test]
fn the_arrows_of_the_code_are_those_of_the_diagram() {
    let tree = Tree::read(&src().join("lib.rs"));
    let rooms = tree.rooms();
    for (room, allowed) in ROOMS {
        let used = &rooms[room];
        for target in used {
            assert!(allowed.contains(target), "{room} may not import {target}");
        }
        for target in *allowed {
            assert!(used.contains(target), "{room} may import {target} and does not: remove the arrow");
        }
    }
}

/// The rooms named right after `crate::`: one, or each head of a group such as `{pickle::save, event}`.
fn names_of(rest: &str) -> Vec<String> {
    let head = |s: &str| -> String {
        s.trim_start().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
    };
    let Some(group) = rest.strip_prefix('{') else { return vec![head(rest)] };
    let (mut depth, mut start, mut out) = (0, 0, Vec::new());
    for (i, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => {
                out.push(head(&group[start..i]));
                break;
            }
            '}' => depth -= 1,
            ',' if depth == 0 => {
                out.push(head(&group[start..i]));
                start = i + 1;
            }
            _ => {}
        }
    }
    out
}

/// Every file of a room, at any depth.
fn files_of(room: &str) -> Vec<(String, String)> {
    let mut out = Vec::new();
    let file = src().join(format!("{room}.rs"));
    let mut open: Vec<_> = [file, src().join(room)].into_iter().filter(|path| path.exists()).collect();
    while let Some(path) = open.pop() {
        if path.is_dir() {
            open.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        } else {
            out.push((path.display().to_string(), fs::read_to_string(&path).unwrap()));
        }
    }
    out
}
