//! The key of a stack: its words, in the order of captures, and their hash.
#![forbid(unsafe_code)]

/// The words of a stack with their hash.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Key<'a> {
    /// The hash of all words. Equal words have equal hashes.
    pub hash: u64,
    /// Return addresses, outermost first.
    pub native: &'a [usize],
    /// The words of another source of frames, as it wrote them: innermost first.
    pub source: &'a [usize],
}
