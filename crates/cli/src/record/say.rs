//! A line of this command's own on standard error.

#![forbid(unsafe_code)]

use std::io::{self, Write};

/// Prints a line of this command's own. A standard error that nothing reads is not an error.
pub(super) fn say(what: &str) {
    let _ = writeln!(io::stderr(), "memreel: {what}");
}
