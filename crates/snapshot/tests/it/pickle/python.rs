//! CPython as a second opinion. Most tests that need it are ignored: `cargo test --test it -- --ignored cpython`.

use memreel_testing::repository;
use std::{
    path::{Path, PathBuf},
    process::Command,
};

/// Whether `python3` can be run.
pub(crate) fn is_installed() -> bool {
    Command::new("python3").arg("--version").output().is_ok_and(|output| output.status.success())
}

/// Runs a Python program given as text and returns what it prints.
pub(crate) fn run(program: &str, arguments: &[&Path]) -> String {
    output(Command::new("python3").arg("-c").arg(program).args(arguments))
}

/// Returns for each pair of pickles `"equal"`, or where CPython's values differ.
pub(crate) fn compare(pairs: &[(PathBuf, PathBuf)]) -> Vec<String> {
    let script = repository("fixtures/compare.py");
    let paths = pairs.iter().flat_map(|(original, ours)| [original, ours]);
    let printed = output(Command::new("python3").arg(script).args(paths));
    let lines: Vec<_> = printed.lines().map(str::to_string).collect();
    assert_eq!(lines.len(), pairs.len(), "one line a pair: {printed}");
    lines
}

fn output(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("python3 cannot be run: {error}"));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}
