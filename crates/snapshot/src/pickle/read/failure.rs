//! Why reading stops: the file is not a snapshot, or the fast path met something that it leaves to the slow path.

#![forbid(unsafe_code)]

use crate::words::Error;

/// Why a part of reading has no result.
#[derive(Debug)]
pub(super) enum Failure {
    /// The file is not a snapshot.
    Malformed(Error),
    /// The fast path does not decide this case: the file is read again by the slow path.
    Fallback,
}

/// The result of a part of reading.
pub(super) type Attempt<T> = Result<T, Failure>;

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::Malformed(error)
    }
}
