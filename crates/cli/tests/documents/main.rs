//! The documents against the program, so that they cannot lie:
//!
//! - `blocks`: every block of commands of the README and of docs/ prints what the page has, or says why it is not run.
//! - `commands`: the pages of the commands have their help and the output of an example, and that of `--json` has each key.
//! - `options`: every command, option and path that a page names exists.
//! - `book`: the site has every page.

#![forbid(unsafe_code)]

mod blocks;
mod book;
mod commands;
mod options;

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use memreel_testing::repository;

/// The width of the terminal that the pages show.
const COLUMNS: &str = "110";

/// Returns the README and every page of docs/.
fn pages() -> Vec<PathBuf> {
    let mut pages = vec![repository("README.md")];
    let mut folders = vec![repository("docs")];
    while let Some(folder) = folders.pop() {
        let paths = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        for path in paths {
            match path.is_dir() {
                true => folders.push(path),
                false if path.extension().is_some_and(|ending| ending == "md") => pages.push(path),
                false => {}
            }
        }
    }
    pages.sort();
    pages
}

/// Runs the program at the root of the repository, as wide as the pages.
fn memreel(words: &[&str]) -> Output {
    let mut program = Command::new(env!("CARGO_BIN_EXE_memreel"));
    program.args(words).current_dir(repository("")).env("COLUMNS", COLUMNS).output().unwrap()
}

/// Returns a page's name, relative to the repository.
fn name(page: &Path) -> String {
    page.strip_prefix(repository("")).unwrap().display().to_string()
}
