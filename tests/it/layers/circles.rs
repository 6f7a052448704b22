//! No file imports, even by way of others, from a file that imports from it; nor does a room of a package or of another room.
#![forbid(unsafe_code)]

use std::{collections::BTreeSet, fs, path::Path, slice::from_ref};

use super::{
    packages::packages,
    tree::{Imports, Tree},
};

#[test]
fn no_files_or_rooms_import_in_a_circle() {
    for package in packages() {
        let tree = Tree::read(&package.root);
        let imports = tree.imports();
        let (n_files, n_imports) = (imports.len(), imports.values().map(BTreeSet::len).sum::<usize>());
        // The root may import nothing, and then the others are connected; the modules of `testing` are not.
        let is_read = n_imports + 2 >= n_files || package.name == "dev/testing";
        assert!(is_read, "{package:?}: {n_imports} imports in {n_files} files");
        let of_files = circles(&imports);
        assert!(of_files.is_empty(), "{package:?}: circles of files: {of_files:#?}");
        for parent in tree.parents() {
            let of_rooms = circles(&tree.children(parent));
            assert!(of_rooms.is_empty(), "{package:?}: circles of rooms in {parent:?}: {of_rooms:#?}");
        }
    }
}

/// A package of three files besides its root: `low.rs` must not import from the others, and `line` does so.
fn with_line_in_low(line: &str) -> Vec<(&'static str, String)> {
    vec![
        ("lib.rs", "mod low; mod rooms; pub use rooms::*;".to_owned()),
        ("low.rs", format!("use crate::rooms; pub struct Low; {line}")),
        ("rooms/mod.rs", "mod at; pub(crate) use at::{run, Run}; pub use at::*;".to_owned()),
        ("rooms/at.rs", "use crate::low::Low; pub fn run() -> Low { Low } pub struct Run;".to_owned()),
    ]
}

#[test]
fn a_circle_is_found_however_a_path_is_written() {
    let circle = circle_of(["low.rs", "rooms/at.rs"]);
    for line in [
        "use crate::rooms::run;",
        "use super::rooms::Run as Other;",
        "fn f() { rooms::run(); }",
        "fn f() { use crate::rooms as inner; inner::run(); }",
        "use rooms as renamed; fn f() { renamed::at::run(); }",
        "use rooms::{self as renamed}; fn f(_: renamed::Run) {}",
        "use rooms::*; fn f() { at::run(); }",
        "use crate::*; fn f() { Run::new(); }",
        "mod inner { use super::*; fn f() { rooms::run(); } }",
        "mod inner { fn f() { super::rooms::run(); } }",
        "fn f() { println!(\"{}\", rooms::run()); }",
        "fn f() { json!({ \"key\": [1, rooms::at::run()] }); }",
        "macro_rules! made { () => { $crate::rooms::run() }; }",
        "#[arg(value_parser = rooms::run)] struct Options;",
        "struct Options { #[serde(serialize_with = \"rooms::run\")] field: u64 }",
        "#[cfg(all(unix, not(test)))] fn f() { rooms::run(); }",
    ] {
        assert_eq!(found(&with_line_in_low(line)).0, from_ref(&circle), "{line}");
    }
}

#[test]
fn what_is_not_an_import_makes_no_circle() {
    for line in [
        "",
        "use ::rooms::run;",
        "use std::rooms::run; fn f() { other::rooms::run(); }",
        "pub use crate::rooms::run as another;",
        "#[cfg(test)] mod tests { use super::*; fn f() { rooms::run(); } }",
        "#[cfg(all(test, unix))] fn f() { rooms::run(); }",
        "#[doc = \"See rooms::run\"] fn f() { println!(\"rooms::run\"); }",
        "macro_rules! made { () => { super::rooms::run() }; }",
    ] {
        let (files, _) = found(&with_line_in_low(line));
        assert!(files.is_empty(), "{line}: {files:?}");
    }
}

#[test]
fn a_circle_of_a_file_and_its_child_is_found() {
    let with = |parent: &str| {
        let files = [
            ("lib.rs", "mod parent;".to_owned()),
            ("parent.rs", format!("mod child; {parent}")),
            ("parent/child.rs", "use super::f; pub fn g() { f(); }".to_owned()),
        ];
        found(&files).0
    };
    let circle = circle_of(["parent.rs", "parent/child.rs"]);
    assert_eq!(with("pub fn f() { child::g(); }"), from_ref(&circle));
    assert_eq!(with("use child::g; pub fn f() { g(); }"), [circle]);
    // A variable of that name is not the module.
    assert!(with("pub use child::g; pub fn f(child: u64) -> u64 { child }").is_empty());
}

#[test]
fn a_circle_of_rooms_is_found_where_files_have_none() {
    let mut files = vec![
        ("lib.rs", "mod files; mod tables; mod plan;".to_owned()),
        ("files/mod.rs", "mod address; mod opened; pub(crate) use opened::Opened;".to_owned()),
        ("files/address.rs", "pub struct Address;".to_owned()),
        ("files/opened.rs", "use crate::plan; pub struct Opened(plan::Sink);".to_owned()),
        ("tables/mod.rs", "mod events; mod rows; pub(crate) use rows::Rows;".to_owned()),
        ("tables/events.rs", "use crate::files::Opened; pub struct Events(Opened);".to_owned()),
        ("tables/rows.rs", "pub struct Rows;".to_owned()),
        ("plan/mod.rs", "mod sink; pub(crate) use sink::Sink;".to_owned()),
        ("plan/sink.rs", "use crate::tables::Rows; pub struct Sink(Rows);".to_owned()),
    ];
    assert_eq!(found(&files), (vec![], vec![circle_of(["files", "plan", "tables"])]));
    files[3].1 = "use super::address::Address; pub struct Opened(Address);".to_owned();
    assert_eq!(found(&files), (vec![], vec![]));
}

/// A package whose room `outer::rooms` has two rooms, `one` and `two`. `two::needed` is used by `one`; `line` is in `two`.
fn with_line_in_two(line: &str) -> Vec<(&'static str, String)> {
    let file = |name, text: &str| (name, text.to_owned());
    vec![
        file("lib.rs", "mod outer;"),
        file("outer/mod.rs", "mod rooms;"),
        file("outer/rooms/mod.rs", "mod one; mod two;"),
        file("outer/rooms/one/mod.rs", "mod uses; mod deep; pub(super) use deep::low::{Item, low};"),
        file("outer/rooms/one/uses.rs", "use super::super::two::needed::Needed; struct Uses(Needed);"),
        file("outer/rooms/one/deep/mod.rs", "pub(super) mod low;"),
        file("outer/rooms/one/deep/low.rs", "pub struct Item; pub fn low() {}"),
        file("outer/rooms/two/mod.rs", "pub(super) mod needed; mod inner;"),
        file("outer/rooms/two/needed.rs", "pub struct Needed;"),
        file("outer/rooms/two/inner/mod.rs", "mod last;"),
        ("outer/rooms/two/inner/last.rs", line.to_owned()),
    ]
}

#[test]
fn a_circle_of_rooms_is_found_below_other_rooms() {
    let circle = circle_of(["outer::rooms::one", "outer::rooms::two"]);
    for line in [
        "use crate::outer::rooms::one::deep::low::Item; struct Last(Item);",
        "use super::super::super::one::deep::low; fn last() { low::low(); }",
        // By a re-export, which is of the room.
        "use crate::outer::rooms::one::Item as Other; struct Last(Other);",
        "fn last() { crate::outer::rooms::one::low(); }",
        "pub use crate::outer::rooms::one::low;",
    ] {
        assert_eq!(found(&with_line_in_two(line)), (vec![], vec![circle.clone()]), "{line}");
    }
    for line in
        ["", "use super::super::needed::Needed; struct Last(Needed);", "fn one() {} fn last() { one(); }"]
    {
        assert_eq!(found(&with_line_in_two(line)), (vec![], vec![]), "{line}");
    }
}

fn circle_of<const N: usize>(names: [&str; N]) -> BTreeSet<String> {
    names.into_iter().map(str::to_owned).collect()
}

/// Returns the circles of files and those of rooms, by their paths, in a package with these files.
fn found(files: &[(&str, String)]) -> (Vec<BTreeSet<String>>, Vec<BTreeSet<String>>) {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let tree = Tree::read(&folder.path().join("lib.rs"));
    let name = |file: &Path| file.strip_prefix(folder.path()).unwrap().display().to_string();
    let files = circles(&tree.imports()).into_iter().map(|circle| circle.into_iter().map(name).collect());
    let rooms_in = |parent: &[String]| -> Vec<BTreeSet<String>> {
        let path = |room: &str| [parent, &[room.to_owned()]].concat().join("::");
        let circles = circles(&tree.children(parent)).into_iter();
        circles.map(|circle| circle.into_iter().map(path).collect()).collect()
    };
    (files.collect(), tree.parents().into_iter().flat_map(rooms_in).collect())
}

/// Every set of files or rooms that all reach each other.
fn circles<'a, T: Ord + ?Sized>(imports: &Imports<'a, T>) -> Vec<BTreeSet<&'a T>> {
    let reached: Imports<'a, T> = imports.keys().map(|from| (*from, reachable(imports, from))).collect();
    let circle = |from: &&'a T| -> BTreeSet<&'a T> {
        reached[from].iter().copied().filter(|other| reached[other].contains(from)).collect()
    };
    let all: BTreeSet<_> = imports.keys().map(circle).filter(|circle| !circle.is_empty()).collect();
    all.into_iter().collect()
}

/// What a file or a room imports from, directly or not.
fn reachable<'a, T: Ord + ?Sized>(imports: &Imports<'a, T>, from: &T) -> BTreeSet<&'a T> {
    let mut found = BTreeSet::new();
    let mut open: Vec<&'a T> = imports[from].iter().copied().collect();
    while let Some(next) = open.pop() {
        if found.insert(next) {
            open.extend(&imports[next]);
        }
    }
    found
}
