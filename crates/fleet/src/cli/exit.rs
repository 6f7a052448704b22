//! The program's exit status, and why a command failed.

use std::fmt::Display;

use datafusion::{common::DataFusionError, sql::sqlparser::parser::ParserError};

use crate::files::NoFiles;

/// The exit status. Most usage errors are reported by clap, with status 2 too.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Exit {
    /// The question is answered.
    Fine = 0,
    /// The command asks for what is not there: a column, a table, a wrong query.
    Usage = 2,
    /// A file cannot be read or written, or every file is broken.
    Unreadable = 3,
    /// Ctrl-C, as shells report it.
    Interrupted = 130,
}

/// Why a command failed: the exit status and a message.
#[derive(Debug)]
pub(super) struct Failure(Exit, String);

impl Failure {
    pub(super) fn usage(what: impl Display) -> Failure {
        Failure(Exit::Usage, what.to_string())
    }

    pub(super) fn unreadable(what: impl Display) -> Failure {
        Failure(Exit::Unreadable, what.to_string())
    }

    pub(super) fn interrupted() -> Failure {
        Failure(Exit::Interrupted, "interrupted; the cluster has cancelled the query".to_owned())
    }

    /// Prints the message to standard error.
    pub(super) fn report(self) -> Exit {
        eprintln!("memreel-fleet: {}", self.1);
        self.0
    }
}

impl From<DataFusionError> for Failure {
    fn from(error: DataFusionError) -> Failure {
        let message = error.strip_backtrace();
        match error.find_root() {
            DataFusionError::Configuration(message) => Failure::usage(message),
            DataFusionError::External(cause) if cause.is::<NoFiles>() => Failure::unreadable(cause),
            DataFusionError::SQL(..)
            | DataFusionError::Plan(_)
            | DataFusionError::SchemaError(..)
            | DataFusionError::NotImplemented(_) => Failure::usage(message),
            // Its prefix names DataFusion's code and not the user's.
            DataFusionError::Execution(message) => Failure::unreadable(message),
            DataFusionError::External(cause) if cause.is::<ParserError>() => Failure::usage(message),
            _ => Failure::unreadable(message),
        }
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Failure {
        Failure::unreadable(format!("cannot write: {error}"))
    }
}
