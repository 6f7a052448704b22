//! Substitutes for these facts on systems on which memreel only reads.
#![forbid(unsafe_code)]

/// The signals that a thread does not receive.
pub(crate) mod mask {
    /// Stands for a thread that receives all signals.
    pub(crate) struct Blocked;

    impl Blocked {
        /// Blocks no signal.
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
        pub(crate) own_maps: Vec<std::ops::Range<u64>>,
        pub(crate) stacks: Vec<Range<u64>>,
        pub(crate) own_folders: Vec<String>,
    }

    /// Returns an error.
    ///
    /// # Errors
    /// [`io::ErrorKind::Unsupported`], always.
    pub(crate) fn look(_process: &Path, _known: &Known) -> io::Result<ResidentReport> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// The recorder's own mappings: none.
pub(crate) mod own_maps {
    use std::{ops::Range, path::Path};

    /// Returns an empty list.
    pub(crate) fn ranges() -> Vec<Range<u64>> {
        Vec::new()
    }

    /// Returns an empty list.
    pub(crate) fn ranges_in(_process: &Path, _address: u64) -> Vec<Range<u64>> {
        Vec::new()
    }
}

/// One line on standard error.
pub(crate) mod notice {
    /// Prints a line, which names memreel as its source.
    pub(crate) fn print(what: &str) {
        eprintln!("memreel: {}", what.replace(['\n', '\r'], " "));
    }
}
