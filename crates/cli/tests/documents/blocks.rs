//! Blocks of commands in pages.

#![forbid(unsafe_code)]

use std::{env, fs, os::unix::fs::symlink, path::Path};

use memreel_testing::repository;
use trycmd::{TestCases, schema::Bin};

use crate::{COLUMNS, name, pages};

/// Every block of the kind `console` is run by trycmd in a folder that has `fixtures`, and compared.
#[test]
fn blocks_print_what_the_pages_have() {
    let folder = tempfile::tempdir().unwrap();
    symlink(repository("fixtures"), folder.path().join("fixtures")).unwrap();
    env::set_current_dir(folder.path()).unwrap();
    let cases = TestCases::new();
    cases.register_bin("memreel", Path::new(env!("CARGO_BIN_EXE_memreel")));
    // The README's two commands: the gate's step `test` runs them.
    cases.register_bin("cargo", Bin::Ignore);
    cases.env("COLUMNS", COLUMNS);
    for page in pages() {
        cases.case(page);
    }
    cases.run();
}

/// A block of the kind `shell` is not run, and the comment before it says why.
#[test]
fn blocks_that_are_not_run_say_why() {
    let mut wrong = Vec::new();
    let mut n_run = 0;
    for page in pages() {
        let text = fs::read_to_string(&page).unwrap();
        let mut before = "";
        let mut is_code = false;
        for line in text.lines() {
            if line.starts_with("```") {
                is_code = !is_code;
                let has_reason = before.starts_with("<!-- not run: ") && before.ends_with(" -->");
                match line {
                    "```console" => n_run += 1,
                    "```shell" if has_reason => {}
                    "```shell" => wrong.push(format!("{}: no reason before {line}", name(&page))),
                    // trycmd runs a block without a kind.
                    "```" if is_code => wrong.push(format!("{}: a block without a kind", name(&page))),
                    _ if line.starts_with("```console") => {
                        wrong.push(format!("{}: {line}", name(&page)));
                    }
                    _ => {}
                }
            }
            before = line;
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(n_run > 10, "only {n_run} blocks are run");
}

/// Only the README may have commands that trycmd leaves out.
#[test]
fn only_the_readme_has_commands_of_cargo_in_blocks_that_are_run() {
    for page in pages() {
        let text = fs::read_to_string(&page).unwrap();
        let runs = text.split("```console\n").skip(1).filter_map(|rest| rest.split("\n```").next());
        let of_cargo: Vec<&str> =
            runs.flat_map(str::lines).filter(|line| line.starts_with("$ cargo")).collect();
        let expected: &[&str] = match name(&page).as_str() {
            "README.md" => &["$ cargo run --release --example train", "$ cargo test"],
            _ => &[],
        };
        assert_eq!(of_cargo, expected, "{}", name(&page));
    }
}
