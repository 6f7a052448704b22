//! A question about one device of a snapshot.

use serde::Serialize;

use crate::{Refusal, Subject};

/// A question about one device of a snapshot. Its fields are the options of the question.
pub trait Question {
    /// The answer: every figure of it, in the order of `--json`.
    type Answer<'s>: Serialize;

    /// Answers the question.
    ///
    /// # Errors
    /// The device does not have what the question asks about. The error names the field.
    fn ask<'s>(&self, subject: &'s Subject<'_>) -> Result<Self::Answer<'s>, Refusal>;
}
