//! What the kernel does not know of the address space.
#![forbid(unsafe_code)]

use std::ops::Range;

/// What the kernel does not know of the address space.
#[derive(Clone, Debug, Default)]
pub(crate) struct Known {
    /// Stacks of threads.
    pub(crate) stacks: Vec<Range<u64>>,
    /// Folders whose files are the recorder's.
    pub(crate) own_folders: Vec<String>,
}
