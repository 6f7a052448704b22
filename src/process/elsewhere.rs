//! What these facts are on systems on which memreel only reads.
#![forbid(unsafe_code)]

/// The signals that a thread does not receive.
pub(crate) mod mask {
    /// A thread that receives all of them.
    pub(crate) struct Blocked;

    impl Blocked {
        /// Blocks none.
        pub(crate) fn new() -> Blocked {
            Blocked
        }
    }
}

/// The resident memory of a process.
pub(crate) mod memory {
    use std::{io, ops::Range, path::Path};

    use memreel_snapshot::words::ResidentReport;

    /// The folder of this process.
    pub(crate) const OWN: &str = "this process";

    /// What is known of a process's memory.
    pub(crate) struct Known {
        pub(crate) stacks: Vec<Range<u64>>,
        pub(crate) own_folders: Vec<String>,
    }

    /// Refuses to look.
    ///
    /// # Errors
    /// [`io::ErrorKind::Unsupported`], always.
    pub(crate) fn look(_process: &Path, _known: &Known) -> io::Result<ResidentReport> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// One line on standard error.
pub(crate) mod notice {
    /// Prints a line, which names memreel as its source.
    pub(crate) fn print(what: &str) {
        eprintln!("memreel: {}", what.replace(['\n', '\r'], " "));
    }
}
