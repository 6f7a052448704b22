//! Every selection of packages that is built has the same features for the crates below the library, so that one build of
//! the library serves all of them.
#![forbid(unsafe_code)]

use std::{
    collections::{BTreeMap, BTreeSet},
    process::Command,
};

use memreel_testing::repository;

/// What is built: the tests of the README, the libraries that tests build, the wheel, and the gate itself.
const SELECTIONS: &[(&str, &str)] = &[
    ("-p memreel -p memreel-snapshot -p memreel-cli", "normal,build,dev"),
    ("-p memreel-snapshot", "normal,build,dev"),
    ("-p memreel", "normal,build,dev"),
    ("-p memreel-cli", "normal,build,dev"),
    ("-p memreel-preload -p memreel-heap", "normal,build"),
    ("-p memreel-preload -p memreel-heap", "normal,build,dev"),
    ("-p memreel-capi", "normal,build,dev"),
    ("-p memreel-python", "normal,build"),
    ("-p xtask", "normal,build"),
];

/// The features of each crate of a selection. A crate that is built for two machines has two sets. Cargo downloads those that
/// no test needs.
fn features(packages: &str, edges: &str) -> BTreeMap<String, BTreeSet<String>> {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["tree", "--locked", "--prefix", "none", "--format", "{p}|{f}", "--edges", edges]);
    let listed = cargo.args(packages.split(' ')).current_dir(repository("")).output().unwrap();
    assert!(listed.status.success(), "{}", String::from_utf8_lossy(&listed.stderr));
    let mut features = BTreeMap::<_, BTreeSet<String>>::new();
    for line in String::from_utf8(listed.stdout).unwrap().lines() {
        if let Some((package, of_package)) = line.trim_end_matches(" (*)").split_once('|') {
            features.entry(package.to_owned()).or_default().insert(of_package.to_owned());
        }
    }
    features
}

#[test]
fn every_selection_shares_one_build_of_the_library() {
    let below = features("-p memreel", "normal");
    assert!(below.len() > 20, "{below:?}");
    let (first, first_edges) = SELECTIONS[0];
    let expected = features(first, first_edges);
    let mut other = Vec::new();
    for (packages, edges) in &SELECTIONS[1..] {
        let found = features(packages, edges);
        let differs =
            |package: &&String| found.get(*package).is_some_and(|these| *these != expected[*package]);
        other.extend(below.keys().filter(differs).map(|package| {
            format!("{package}: {:?} in `{packages}`, {:?} in `{first}`", found[package], expected[package])
        }));
    }
    assert!(other.is_empty(), "name these in dev/workspace-hack/Cargo.toml: {other:#?}");
}
