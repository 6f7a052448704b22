//! What the program's exit status says.

use std::process::ExitCode;

/// The worse, the higher; most usage errors are clap's and have the status 2 too.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Exit {
    /// Nothing that a reader would stumble over.
    Fine = 0,
    /// A file breaks a rule whose breach makes some reader throw, or its history contradicts itself.
    Broken = 1,
    /// The command asks for what there is not: an unknown setting, a device without a history.
    Usage = 2,
    /// A file could not be read or written, or is no snapshot.
    Unreadable = 3,
    /// A snapshot is over a limit that it was held against.
    GateFailed = 4,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit as u8)
    }
}
