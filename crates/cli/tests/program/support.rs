//! How tests run the program.

#![forbid(unsafe_code)]

use std::{
    path::PathBuf,
    process::{Command, Output},
};

/// Returns a file or folder below `fixtures`.
pub(crate) fn fixture(path: &str) -> PathBuf {
    crate::repository("fixtures").join(path)
}

/// Returns the program with these arguments, in the folder `fixtures`.
pub(crate) fn memreel(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_memreel"));
    // A terminal's width would shorten lines.
    command.args(arguments).current_dir(fixture("")).env_remove("COLUMNS");
    command
}

/// Runs the program in the folder `fixtures`.
pub(crate) fn run(arguments: &[&str]) -> Output {
    memreel(arguments).output().unwrap()
}

/// Returns what the program prints; it must print nothing on standard error.
pub(crate) fn answer(arguments: &[&str]) -> String {
    let output = run(arguments);
    assert!(output.stderr.is_empty(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Returns a file below `fixtures/expected`.
pub(crate) fn expected(name: &str) -> String {
    std::fs::read_to_string(fixture("expected").join(name)).unwrap()
}

/// The commands of `memreel torch`, which are known without this word too.
const OF_TORCH: [&str; 5] = ["stats", "trace", "segments", "memory", "compare"];

/// Returns the commands that `memreel --help` and `memreel torch --help` list.
pub(crate) fn commands() -> Vec<String> {
    listed().into_iter().map(|(name, _)| name).chain(OF_TORCH.map(str::to_owned)).collect()
}

/// Returns the commands that `memreel --help` lists, with what it says about them.
pub(crate) fn listed() -> Vec<(String, String)> {
    let help = answer(&["--help"]);
    let lists =
        help.lines().take_while(|line| *line != "Options:").skip_while(|line| *line != "Getting started:");
    let line = |line: &str| {
        let (name, about) = line.strip_prefix("  ")?.split_once(' ')?;
        Some((name.to_owned(), about.trim_start().to_owned()))
    };
    lists.filter_map(line).collect()
}

pub(crate) fn stdout(output: &Output) -> &str {
    std::str::from_utf8(&output.stdout).unwrap()
}

pub(crate) fn stderr(output: &Output) -> &str {
    std::str::from_utf8(&output.stderr).unwrap()
}
