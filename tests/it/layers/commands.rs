//! In the program, no command imports from another, and what records knows nothing of the page about files.
#![forbid(unsafe_code)]

use std::fs;

use memreel_testing::repository;

use super::tree::Tree;

/// Rooms of the program that may not import from others, or from what is below them.
const NEVER: [(&str, &str); 5] = [
    ("record", "serve::view"),
    ("record", "watch"),
    ("serve", "record"),
    ("serve", "watch"),
    ("watch", "record"),
];

#[test]
fn no_command_imports_from_another() {
    let root = repository("crates/cli/src/lib.rs");
    let tree = Tree::read(&root);
    let n_commands = tree.children(&["commands".to_owned()]).len();
    assert!(n_commands > 20, "only {n_commands} commands: they were not found");
    for room in NEVER.iter().flat_map(|(from, to)| [from, to]) {
        let folder = room.replace("::", "/");
        assert!(root.with_file_name(&folder).is_dir(), "{room} is no room: the rule about it says nothing");
    }
    let strays = strays(&tree);
    assert!(strays.is_empty(), "what two commands need is in a room of its own: {strays:#?}");
}

/// The imports of commands from others, and those that no room may have.
fn strays(tree: &Tree) -> Vec<String> {
    let commands = tree.children(&["commands".to_owned()]);
    let of_commands = commands.iter().flat_map(|(from, targets)| {
        targets.iter().map(move |to| format!("commands::{from} -> commands::{to}"))
    });
    let arrows = tree.arrows();
    let all = arrows.iter().flat_map(|(from, targets)| targets.iter().map(move |to| (*from, *to)));
    let is_in = |at: &[String], room: &str| format!("{}::", at.join("::")).starts_with(&format!("{room}::"));
    let of_rooms = all
        .filter(|(from, to)| NEVER.iter().any(|(room, other)| is_in(from, room) && is_in(to, other)))
        .map(|(from, to)| format!("{} -> {}", from.join("::"), to.join("::")));
    of_commands.chain(of_rooms).collect()
}

/// A program with two commands and a page, and a line in one of its files.
fn with_line(name: &str, line: &str) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    for (file, text) in [
        ("lib.rs", "mod commands; mod record; mod serve; mod watch;"),
        (
            "commands/mod.rs",
            "mod one; mod two; use crate::record::run; pub(crate) use two::Two; fn all() { run(); one::run(); }",
        ),
        ("commands/one.rs", "pub(super) fn run() {}"),
        ("commands/two/mod.rs", "mod part; use part::Part; pub(crate) struct Two(Part);"),
        ("commands/two/part.rs", "use super::Two; pub(super) struct Part;"),
        ("record/mod.rs", "mod folder; pub(crate) fn run() {}"),
        ("record/folder.rs", "use crate::serve::live::Live; pub(crate) struct Folder(Live);"),
        ("serve/mod.rs", "pub(crate) mod live; mod view; pub(crate) use view::Page;"),
        ("serve/live.rs", "use super::view::Page; pub(crate) struct Live(Page);"),
        ("serve/view.rs", "pub(crate) struct Page;"),
        ("watch/mod.rs", "pub(crate) struct Watched;"),
    ] {
        let path = folder.path().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let line = if file == name { line } else { "" };
        fs::write(path, format!("{text} {line}")).unwrap();
    }
    strays(&Tree::read(&folder.path().join("lib.rs")))
}

#[test]
fn an_import_of_another_command_is_found() {
    assert_eq!(with_line("lib.rs", ""), [""; 0]);
    for (file, line, found) in [
        ("commands/one.rs", "use super::two::Two;", "commands::one -> commands::two"),
        // By a re-export of the room.
        ("commands/one.rs", "fn f(_: crate::commands::Two) {}", "commands::one -> commands::two"),
        ("commands/two/part.rs", "fn f() { super::super::one::run(); }", "commands::two -> commands::one"),
        ("record/folder.rs", "use crate::serve::Page;", "record::folder -> serve::view"),
        ("record/mod.rs", "pub(crate) use crate::watch::Watched;", "record -> watch"),
        ("serve/view.rs", "use crate::record::run;", "serve::view -> record"),
        ("serve/live.rs", "use crate::watch;", "serve::live -> watch"),
        ("watch/mod.rs", "fn f() { crate::record::run(); }", "watch -> record"),
    ] {
        assert_eq!(with_line(file, line), [found], "{file}: {line}");
    }
}
