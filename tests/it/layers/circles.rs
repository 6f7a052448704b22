//! No file imports, even by way of others, from a file that imports from it.
#![forbid(unsafe_code)]

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use super::{repository, tree::Tree};

type Imports<'a> = BTreeMap<&'a Path, BTreeSet<&'a Path>>;

#[test]
fn no_files_import_in_a_circle() {
    for root in [
        "src/lib.rs",
        "cli/src/lib.rs",
        "capi/src/lib.rs",
        "mcp/src/lib.rs",
        "preload/src/lib.rs",
        "heap/src/lib.rs",
    ] {
        let tree = Tree::read(&repository(root));
        let imports = tree.imports();
        let n_imports: usize = imports.values().map(BTreeSet::len).sum();
        // The root may import nothing, and then the others are connected.
        assert!(n_imports >= tree.n_files() - 2, "{root}: {n_imports} imports in {} files", tree.n_files());
        let circles = circles(&imports);
        assert!(circles.is_empty(), "{root}: circles of imports: {circles:#?}");
    }
}

#[test]
fn a_circle_is_found() {
    let (a, b, c) = (Path::new("a"), Path::new("b"), Path::new("c"));
    let mut imports = Imports::from([(a, [b].into()), (b, [c].into()), (c, [].into())]);
    assert!(circles(&imports).is_empty());
    imports.insert(c, [a].into());
    assert_eq!(circles(&imports), [BTreeSet::from([a, b, c])]);
}

/// Every set of files that all reach each other.
fn circles<'a>(imports: &Imports<'a>) -> Vec<BTreeSet<&'a Path>> {
    let reached: BTreeMap<&Path, BTreeSet<&Path>> =
        imports.keys().map(|file| (*file, reachable(imports, file))).collect();
    let circle = |file: &&'a Path| -> BTreeSet<&'a Path> {
        reached[file].iter().copied().filter(|other| reached[other].contains(file)).collect()
    };
    let all: BTreeSet<_> = imports.keys().map(circle).filter(|circle| !circle.is_empty()).collect();
    all.into_iter().collect()
}

/// The files that a file imports from, directly or not.
fn reachable<'a>(imports: &Imports<'a>, file: &Path) -> BTreeSet<&'a Path> {
    let mut found = BTreeSet::new();
    let mut open: Vec<&'a Path> = imports[file].iter().copied().collect();
    while let Some(next) = open.pop() {
        if found.insert(next) {
            open.extend(&imports[next]);
        }
    }
    found
}
