//! One line on standard error.
#![forbid(unsafe_code)]

use std::io::Write;

/// Prints a line; what cannot be printed is lost.
pub(crate) fn print(line: &str) {
    let _ = writeln!(std::io::stderr(), "memreel: {line}");
}
