//! A path as it is shown: a name from an archive may have characters that change a terminal.

#![forbid(unsafe_code)]

use std::{
    fmt::{self, Display},
    path::Path,
};

use super::clean_display;

/// A path in a text for people. Names of files for programs, in JSON, are whole.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ShownPath<P>(pub(crate) P);

impl<P: AsRef<Path>> Display for ShownPath<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&clean_display(self.0.as_ref().display()))
    }
}
