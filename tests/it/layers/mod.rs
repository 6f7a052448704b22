//! The diagram of `docs/internals/rooms.md` as a test: which room may import which, circles of imports in every package
//! (`circles`), what the `commands` of the program import, who reads the `environment`, where unsafe code is (`unsafety`), which
//! files give the reason of relaxed accesses (`orders`), where the links of the packaged pages lead and which files unit tests
//! use (`package`), where the sizes of segments are (`sizes`), and that sums of sizes have an end (`sums`).
//!
//! Each row names a room and the rooms it may import, all of them from rows above its own, so that the
//! table cannot hold a circle. Imports are those of the code, followed to the room that defines the item, and those of
//! the text: a link in a comment counts too, because a lower room should not mention a higher one. That what reads knows
//! nothing of what records is Cargo's: `memreel-snapshot` has no dependency on `memreel`.
#![forbid(unsafe_code)]

mod circles;
mod commands;
mod environment;
mod module;
mod one_build;
mod orders;
mod package;
mod packages;
mod sizes;
mod sums;
mod tree;
mod unsafety;
mod workflows;
mod writers;

use std::{collections::BTreeSet, fs};

use memreel_testing::repository;
use tree::Tree;

/// A room, and the rooms of its package that it may import.
type Row = (&'static str, &'static [&'static str]);

/// The rooms of the package `memreel-snapshot`.
const READS: &[Row] = &[
    ("words", &[]),
    ("model", &["words"]),
    ("log", &[]),
    ("place", &[]),
    ("history", &["words", "model"]),
    ("pickle", &["words", "model", "place"]),
    ("profile", &["words", "model"]),
    ("validate", &["words", "model", "history", "pickle"]),
    ("analysis", &["words", "model", "log", "history"]),
    ("rewrite", &["words", "model", "history", "analysis"]),
    ("join", &["words", "model", "history", "rewrite"]),
    ("export", &["words", "model", "history", "analysis"]),
];

/// The rooms of the package `memreel`.
const RECORDS: &[Row] = &[
    ("process", &[]),
    ("device", &["process"]),
    ("tape", &["process"]),
    ("stack", &["process", "tape"]),
    ("python", &["process", "stack"]),
    ("recorder", &["process", "tape", "stack"]),
    ("ledger", &["process", "recorder"]),
    ("past", &["process", "tape", "stack", "python", "recorder"]),
    ("heap", &["process", "recorder", "ledger"]),
    ("trigger", &["process", "recorder"]),
    ("allocator", &["process", "device", "recorder"]),
    ("typed", &["process", "device", "allocator"]),
    ("collect", &["process", "tape", "stack", "recorder", "past"]),
    ("snapshot", &["collect"]),
    ("rewrite", &["collect"]),
    ("whatif", &["device", "recorder", "allocator", "collect"]),
    ("fit", &["whatif"]),
    (
        "reel",
        &[
            "process",
            "device",
            "tape",
            "stack",
            "python",
            "recorder",
            "past",
            "heap",
            "trigger",
            "allocator",
            "typed",
            "collect",
            "whatif",
        ],
    ),
];

/// The rooms of `memreel-snapshot` that those of `memreel` may import: those that record know the words alone, and those that
/// read and write files know where these are.
const ACROSS: &[Row] = &[
    ("process", &["place", "words"]),
    ("device", &["words"]),
    ("tape", &["place", "words"]),
    ("stack", &["words"]),
    ("python", &["words"]),
    ("recorder", &["words"]),
    ("ledger", &["words"]),
    ("past", &["words"]),
    ("heap", &["words"]),
    ("trigger", &["place", "words"]),
    ("allocator", &["words"]),
    ("typed", &["words"]),
    ("collect", &["words", "model", "pickle", "rewrite"]),
    ("snapshot", &[]),
    ("rewrite", &[]),
    ("whatif", &["words", "model", "history", "analysis"]),
    ("fit", &["words", "model", "history", "analysis"]),
    ("reel", &["words", "model", "pickle", "analysis"]),
];

/// The packages with such a table: the folder of the code, and the table.
const PACKAGES: [(&str, &[Row]); 2] = [("crates/snapshot/src", READS), ("src", RECORDS)];

#[test]
fn arrows_point_down() {
    for (_, rooms) in PACKAGES {
        for (i, (room, allowed)) in rooms.iter().enumerate() {
            for target in *allowed {
                assert!(rooms[..i].iter().any(|(above, _)| above == target), "{room} -> {target} points up");
            }
        }
    }
}

#[test]
fn rooms_import_only_what_the_diagram_allows() {
    for (src, rooms) in PACKAGES {
        let mut n_files = 0;
        for (room, allowed) in rooms {
            for (path, text) in files_of(src, room) {
                n_files += 1;
                for name in text.split("crate::").skip(1).flat_map(names_of) {
                    let known = rooms.iter().any(|(other, _)| *other == name);
                    let fine = !known || name == *room || allowed.contains(&name.as_str());
                    assert!(fine, "{path}: {room} may not import {name}");
                }
            }
        }
        assert!(n_files > 100, "only {n_files} files in {src}: it was not found");
    }
}

#[test]
fn rooms_that_record_know_only_the_words_of_what_reads() {
    for (room, allowed) in ACROSS {
        let mut used = BTreeSet::new();
        for (path, text) in files_of("src", room) {
            for name in text.split("memreel_snapshot::").skip(1).flat_map(names_of) {
                assert!(allowed.contains(&name.as_str()), "{path}: {room} may not import {name}");
                used.insert(name);
            }
        }
        let unused: Vec<_> = allowed.iter().filter(|name| !used.contains(**name)).collect();
        assert!(unused.is_empty(), "{room} does not import {unused:?}: remove the arrows");
    }
    assert_eq!(names(ACROSS), names(RECORDS));
}

fn names(rooms: &[Row]) -> BTreeSet<&'static str> {
    rooms.iter().map(|(room, _)| *room).collect()
}

#[test]
fn the_arrows_of_the_code_are_those_of_the_diagram() {
    for (src, rooms) in PACKAGES {
        let tree = Tree::read(&repository(src).join("lib.rs"));
        let imports = tree.children(&[]);
        let modules: BTreeSet<_> = imports.keys().copied().filter(|room| !room.is_empty()).collect();
        assert_eq!(modules, names(rooms), "{src}");
        for (room, allowed) in rooms {
            let used = &imports[*room];
            for target in used {
                assert!(allowed.contains(target), "{room} may not import {target}");
            }
            for target in *allowed {
                let is_used = used.contains(target);
                assert!(is_used, "{room} may import {target} and does not: remove the arrow");
            }
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
    out.retain(|name| !name.is_empty());
    out
}

/// Every file of a room, at any depth; none of one that `lib.rs` has in itself.
fn files_of(src: &str, room: &str) -> Vec<(String, String)> {
    let mut out = Vec::new();
    let mut open: Vec<_> =
        Some(repository(src).join(room)).filter(|path| path.exists()).into_iter().collect();
    while let Some(path) = open.pop() {
        if path.is_dir() {
            open.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        } else {
            out.push((path.display().to_string(), fs::read_to_string(&path).unwrap()));
        }
    }
    out
}
