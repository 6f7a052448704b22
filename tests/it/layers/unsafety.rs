//! Unsafe code is only where memory or a foreign caller is touched, and every other file forbids it.
#![forbid(unsafe_code)]

use std::{
    fs,
    path::{Path, PathBuf},
};

use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens;

use memreel_testing::repository;

use super::packages::packages;

/// The packages that are in front of foreign callers, or call a driver.
const PACKAGES: &[&str] =
    &["crates/capi", "crates/hooks/cuda", "crates/hooks/malloc", "crates/web", "crates/cli/tests/cudarc"];

/// The rooms of the library that touch memory or foreign callers, and the helpers of unit tests, which load libraries.
const MAY: &[&str] =
    &["process", "device", "tape", "stack", "python", "heap", "trigger", "allocator", "typed", "testing"];

/// Other files: what threads share; the memory of chunks, which is on the heap or in a tape's file; a mapped snapshot; what the program
/// does before its runtime begins; the allocator of the Python package.
const MAY_TOO: [&str; 5] = [
    "crates/lockfree/src",
    "src/recorder/lines.rs",
    "crates/snapshot/src/pickle/file.rs",
    "crates/cli/src/main.rs",
    "python/src/own_memory.rs",
];

#[test]
fn unsafe_code_is_where_memory_or_a_foreign_caller_is_touched() {
    let mut stray = Vec::new();
    let others = packages().into_iter().filter(|package| !PACKAGES.contains(&&*package.name));
    for file in others.flat_map(|package| files(&package.src)) {
        let below = file.strip_prefix(repository("src")).ok().and_then(|below| below.iter().next());
        let room = below.map(|room| room.to_string_lossy().trim_end_matches(".rs").to_owned());
        let may = room.is_some_and(|room| MAY.contains(&room.as_str()));
        if !may && !MAY_TOO.iter().any(|may| file.starts_with(repository(may))) && uses_unsafe(&file) {
            stray.push(file);
        }
    }
    assert!(stray.is_empty(), "unsafe code in rooms that need none: {stray:#?}");
}

#[test]
fn every_file_uses_unsafe_code_or_forbids_it() {
    let mut neither = Vec::new();
    // Their roots have a module from another folder, with unsafe code.
    let roots = ["benches/heap/dhat", "dev/testing"];
    let all = packages().into_iter().filter(|package| !roots.contains(&&*package.name));
    for package in all {
        let files = files(&package.src);
        let forbids = |file: &Path| fs::read_to_string(file).unwrap().contains("#![forbid(unsafe_code)]");
        let forbidding: Vec<_> = files.iter().filter(|file| forbids(file)).collect();
        // `wrapped!` makes exported functions that call the driver.
        let wraps = |file: &Path| fs::read_to_string(file).unwrap().contains("\nwrapped! {");
        let using: Vec<_> = files.iter().filter(|file| uses_unsafe(file) || wraps(file)).collect();
        // A module that forbids unsafe code forbids it in its children too, so a parent of one that needs it cannot.
        let is_settled = |file: &PathBuf| {
            forbidding.iter().any(|other| *other == file || is_below(file, other))
                || using.iter().any(|other| *other == file || is_below(other, file))
        };
        neither.extend(files.iter().filter(|file| !is_settled(file)).cloned());
    }
    assert!(neither.is_empty(), "neither use nor forbid unsafe code: {neither:#?}");
}

/// Whether a file is a module below another file's.
fn is_below(file: &Path, above: &Path) -> bool {
    let is_root = ["mod.rs", "lib.rs", "main.rs"].iter().any(|name| above.ends_with(name));
    let folder =
        if is_root { above.parent().expect("a folder").to_owned() } else { above.with_extension("") };
    file.starts_with(folder)
}

/// Whether the word `unsafe` is in a file's code; comments and texts do not count.
fn uses_unsafe(file: &Path) -> bool {
    let text = fs::read_to_string(file).unwrap();
    let parsed = syn::parse_file(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    has_unsafe(parsed.to_token_stream())
}

fn has_unsafe(tokens: TokenStream) -> bool {
    tokens.into_iter().any(|token| match token {
        TokenTree::Ident(word) => word == "unsafe",
        TokenTree::Group(group) => has_unsafe(group.stream()),
        _ => false,
    })
}

/// Every Rust file of a folder, at any depth.
pub(super) fn files(folder: &Path) -> Vec<PathBuf> {
    let (mut open, mut found) = (vec![folder.to_owned()], Vec::new());
    while let Some(path) = open.pop() {
        if path.is_dir() {
            open.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found
}
