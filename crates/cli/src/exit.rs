//! The program's exit status.

#![forbid(unsafe_code)]

use std::process::ExitCode;

/// The exit status; for several files the highest. Most usage errors are reported by clap, with status 2 too.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Exit {
    /// The question is answered, and nothing is wrong.
    Fine = 0,
    /// A finding: a broken rule that makes some reader throw, a failed request, or a history that contradicts itself.
    Broken = 1,
    /// The command asks for something that does not exist: an unknown setting, a device without a history.
    Usage = 2,
    /// A file cannot be read or written, or is not a snapshot.
    Unreadable = 3,
    /// A snapshot exceeds a limit of `memreel gate`.
    GateFailed = 4,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit as u8)
    }
}
