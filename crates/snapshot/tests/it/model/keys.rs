//! `schema/snapshot.md` has every key of the format.

use std::fs;

use memreel_snapshot::model::schema::{BLOCK, ENTRY, FRAME, Key, Kind, SEGMENT, SNAPSHOT};
use memreel_testing::repository;

/// The types that the page gives to a kind of value.
fn types(kind: Kind) -> &'static [&'static str] {
    match kind {
        Kind::Count | Kind::Line => &["int", "bytes"],
        Kind::Int => &["int"],
        Kind::OneOf(_) | Kind::Name | Kind::Text => &["str"],
        Kind::Bool => &["bool"],
        Kind::Pool | Kind::Pair => &["tuple of 2 ints"],
        Kind::Records => &[
            "list of frames",
            "list of blocks",
            "list of segments",
            "list of annotations",
            "list of entries",
        ],
        Kind::Traces => &["list of lists of entries"],
        Kind::Dict => &["dict"],
        Kind::Texts => &["list of str"],
    }
}

#[test]
fn the_page_has_every_key_with_its_type_and_release() {
    let page = fs::read_to_string(repository("schema/snapshot.md")).unwrap();
    let sections =
        [("Snapshot", SNAPSHOT), ("Segment", SEGMENT), ("Block", BLOCK), ("Entry", ENTRY), ("Frame", FRAME)];
    for (heading, keys) in sections {
        let section = page.split(&format!("\n### {heading}\n")).nth(1).unwrap();
        let section = section.split("\n### ").next().unwrap();
        let rows: Vec<Vec<&str>> = section
            .lines()
            .filter(|line| line.starts_with("| `"))
            .map(|line| line.split('|').map(str::trim).collect())
            .collect();
        let mut from = 0;
        // The page has `forward_frames` once, although any record with a stack may have it.
        let here = |key: &&Key| key.name != "forward_frames" || heading == "Entry";
        for key in keys.iter().filter(here) {
            let named = format!("`{}`", key.name);
            let row = rows.iter().find(|row| row[1] == named);
            let row = row.unwrap_or_else(|| panic!("{heading}: the page lacks {named}"));
            assert!(types(key.kind).contains(&row[2]), "{heading} {named}: {}", row[2]);
            let since = if key.since == "2.0" { "–" } else { key.since };
            assert_eq!(row[3], since, "{heading} {named}");
            // In a segment's table `frames` comes after `blocks`, as with a stack.
            let at = rows.iter().position(|row| row[1] == named).unwrap();
            assert!(at >= from || heading == "Segment", "{heading}: {named} is out of order");
            from = at;
        }
    }
}
