//! Which calls of a stack are printed, and how.

#![forbid(unsafe_code)]

/// Which calls of a stack are printed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Calls {
    /// At most this number of them.
    pub(crate) n: usize,
    /// With the whole paths of their files.
    pub(crate) has_paths: bool,
}

impl From<usize> for Calls {
    fn from(n: usize) -> Calls {
        Calls { n, has_paths: false }
    }
}
