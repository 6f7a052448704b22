//! Prints this command's own lines on standard error.

#![forbid(unsafe_code)]

use std::io::{self, Write};

/// Prints one of this command's own lines. A standard error that nothing reads is not an error.
pub(super) fn say(what: &str) {
    let _ = writeln!(io::stderr(), "memreel: {what}");
}
