//! What the kernel does not know about the address space.
#![forbid(unsafe_code)]

use std::ops::Range;

/// What the kernel does not know about the address space.
#[derive(Clone, Debug, Default)]
pub(crate) struct Known {
    /// The stacks of threads.
    pub(crate) stacks: Vec<Range<u64>>,
    /// Folders whose files are the recorder's.
    pub(crate) own_folders: Vec<String>,
    /// The ranges that the recorder mapped for itself, by address.
    pub(crate) own_maps: Vec<Range<u64>>,
}

impl Known {
    /// Returns whether a range is one that the recorder mapped, or part of one.
    pub(super) fn is_own(&self, range: &Range<u64>) -> bool {
        let nth = self.own_maps.partition_point(|own| own.end <= range.start);
        self.own_maps.get(nth).is_some_and(|own| own.start <= range.start && range.end <= own.end)
    }
}
