//! One line on standard error, for what a program should know and that no error can tell it.
#![forbid(unsafe_code)]

use rustix::{
    fs::{FileType, fstat, tell},
    io,
    process::{Resource, getrlimit},
    stdio,
};

/// Prints a line, which begins with `memreel: `. A line that cannot be written is lost.
///
/// Not through std's handle, whose lock a thread may have that waits for memreel, and whose `eprintln!` panics where
/// standard error is a closed pipe.
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

/// Returns whether standard error takes more bytes: to write beyond the limit of file sizes is a signal, which ends a program.
fn may_grow(n_bytes: u64) -> bool {
    let Some(limit) = getrlimit(Resource::Fsize).current else { return true };
    let stderr = stdio::stderr();
    let Ok(found) = fstat(stderr) else { return true };
    let end = tell(stderr).unwrap_or(0).max(u64::try_from(found.st_size).unwrap_or(0));
    FileType::from_raw_mode(found.st_mode) != FileType::RegularFile || end.saturating_add(n_bytes) <= limit
}
