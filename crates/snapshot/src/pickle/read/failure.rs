//! Why reading stops: the file is not a snapshot, or the fast path leaves it to the slow path.

#![forbid(unsafe_code)]

use crate::words::Error;

/// Why a part of reading has no result.
#[derive(Debug)]
pub(super) enum Failure {
    /// The file is not a snapshot.
    Malformed(Error),
    /// The fast path does not handle this case: the slow path reads the file again.
    Fallback,
}

/// The result of a part of reading.
pub(super) type Attempt<T> = Result<T, Failure>;

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::Malformed(error)
    }
}
