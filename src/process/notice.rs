//! Prints one line on standard error, for what users should know and no error can report.
#![forbid(unsafe_code)]

use rustix::{
    fs::{FileType, fstat, tell},
    io,
    process::{Resource, getrlimit},
    stdio,
};

/// Prints a line that starts with `memreel: `. A line that cannot be written is lost.
///
/// std's handle is not used: a thread that waits for memreel may have its lock, and `eprintln!` panics if standard
/// error is a closed pipe.
///
/// ```
/// memreel::integrate::notice("this process is not recorded");
/// ```
pub fn print(what: &str) {
    let line = format!("memreel: {}\n", what.replace(['\n', '\r'], " "));
    if may_grow(line.len() as u64) {
        let _ = io::write(stdio::stderr(), line.as_bytes());
    }
}

/// Returns whether standard error accepts more bytes: to write beyond the file size limit raises a signal that ends the
/// program.
fn may_grow(n_bytes: u64) -> bool {
    let Some(limit) = getrlimit(Resource::Fsize).current else { return true };
    let stderr = stdio::stderr();
    let Ok(found) = fstat(stderr) else { return true };
    let end = tell(stderr).unwrap_or(0).max(u64::try_from(found.st_size).unwrap_or(0));
    FileType::from_raw_mode(found.st_mode) != FileType::RegularFile || end.saturating_add(n_bytes) <= limit
}
