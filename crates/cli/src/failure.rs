//! Why a file has no answer.

#![forbid(unsafe_code)]

use std::{
    fmt::{self, Display},
    io,
    path::Path,
};

use memreel_answers::Refusal;
use memreel_snapshot::Error;

use crate::{
    exit::Exit,
    text::{ShownPath, clean},
};

/// Why a file has no answer.
#[derive(Debug)]
pub(crate) enum Failure {
    /// A message for standard error, and the exit status. The next file may still have an answer.
    Message(Exit, String),
    /// Standard output failed, so that no further answer can be printed.
    Output(io::Error),
}

impl Failure {
    /// The command asks for something that the snapshot does not have.
    pub(crate) fn usage(what: impl Display) -> Failure {
        Failure::Message(Exit::Usage, what.to_string())
    }

    /// A file could not be written.
    pub(crate) fn unwritable(path: &Path, why: impl Display) -> Failure {
        Failure::Message(Exit::Unreadable, format!("cannot write {}: {why}", ShownPath(&path)))
    }

    /// Puts the name of the file before the message.
    pub(crate) fn of_file(self, name: &str) -> Failure {
        match self {
            Failure::Message(exit, what) => Failure::Message(exit, format!("{name}: {what}")),
            Failure::Output(error) => Failure::Output(error),
        }
    }

    /// Prints the message to standard error and returns the exit status.
    ///
    /// # Errors
    /// Standard output failed.
    pub(crate) fn report(self) -> io::Result<Exit> {
        match self {
            Failure::Message(exit, what) => {
                // A name in it may come from a stranger.
                let lines: Vec<_> = what.split('\n').map(clean).collect();
                eprintln!("memreel: {}", lines.join("\n"));
                Ok(exit)
            }
            Failure::Output(error) => Err(error),
        }
    }
}

impl Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Message(_, what) => f.write_str(what),
            Failure::Output(error) => error.fmt(f),
        }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        Failure::Output(error)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        let exit = if error.is_history() {
            Exit::Broken
        } else if error.is_invalid_option() || error.is_misuse() {
            Exit::Usage
        } else {
            Exit::Unreadable
        };
        Failure::Message(exit, error.to_string())
    }
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Failure {
        match refusal {
            Refusal::NewBlocksHaveNoOwners => {
                Failure::usage("--new counts blocks, which have no owners; leave out --by owner")
            }
            refusal => Failure::usage(refusal),
        }
    }
}
