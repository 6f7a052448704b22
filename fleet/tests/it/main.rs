//! Tests of the tables and of the program, on PyTorch's snapshots.

#![forbid(unsafe_code)]

mod ask;
mod answers;
mod broken;
mod cluster;
mod export;
mod machines;
mod program;
mod pushdown;
mod tape;

/// `schema/tables.md` is what the code has; `memreel-fleet tables > schema/tables.md` writes it.
#[test]
fn the_page_of_the_schema_is_that_of_the_code() {
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../schema/tables.md")).unwrap();
    assert_eq!(page, memreel_fleet::page());
}
