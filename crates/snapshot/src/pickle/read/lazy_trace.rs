//! The trace of one device whose entries remain in the file.

#![forbid(unsafe_code)]

use std::ops::Range;

use crate::model::TraceEntry;

/// The entries of one device, in order.
#[derive(Debug, Default)]
pub(super) struct LazyTrace {
    sections: Vec<Section>,
    n_entries: usize,
}

/// Consecutive entries of a trace.
#[derive(Clone, Debug)]
pub(super) enum Section {
    /// Their numbers among the entries of the file.
    InFile(Range<u32>),
    /// An entry that the fast path did not decode.
    InMemory(TraceEntry),
}

impl Section {
    pub(super) fn len(&self) -> usize {
        match self {
            Section::InFile(range) => range.len(),
            Section::InMemory(_) => 1,
        }
    }
}

impl LazyTrace {
    pub(super) fn push(&mut self, section: Section) {
        self.n_entries += section.len();
        self.sections.push(section);
    }

    pub(super) fn sections(&self) -> &[Section] {
        &self.sections
    }

    pub(super) fn n_entries(&self) -> usize {
        self.n_entries
    }
}
