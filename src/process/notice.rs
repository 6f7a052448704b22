//! One line on standard error, for what a program should know and that no error can tell it.
#![forbid(unsafe_code)]

use rustix::{io, stdio};

/// Prints a line.
///
/// Not through std's handle, whose lock a thread may have that waits for memreel, and whose `eprintln!` panics where
/// standard error is a closed pipe.
pub(crate) fn print(what: &str) {
    let line = format!("memreel: {}\n", what.replace(['\n', '\r'], " "));
    let _ = io::write(stdio::stderr(), line.as_bytes());
}
