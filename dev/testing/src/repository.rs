//! The files of the repository, and lines that a test prints on every run.
#![forbid(unsafe_code)]

use std::{
    io::{self, Write},
    path::{Path, PathBuf},
};

/// Returns a path below the root of the repository.
#[must_use]
pub fn repository(path: impl AsRef<Path>) -> PathBuf {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    package.ancestors().nth(2).unwrap_or(package).join(path)
}

/// Prints a line on every run, past the harness's capture.
pub fn say(line: &str) {
    let _ = writeln!(io::stdout(), "{line}");
}
