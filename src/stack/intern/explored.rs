//! The table of stacks alone, for the models of `dev/loom`, which cannot walk the stacks of loom's threads.
#![forbid(unsafe_code)]

use super::interner::StackInterner;
use memreel_snapshot::words::StackId;

/// A table of stacks.
#[derive(Debug)]
pub struct Stacks(StackInterner);

impl Stacks {
    /// Creates a table for at most `limit` stacks.
    #[must_use]
    pub fn new(limit: usize) -> Stacks {
        Stacks(StackInterner::new(limit))
    }

    /// Returns the number of a stack.
    #[must_use]
    pub fn number(&self, addresses: &[usize]) -> StackId {
        self.0.intern(addresses)
    }

    /// Returns the addresses of a stack.
    #[must_use]
    pub fn addresses(&self, stack: StackId) -> Vec<usize> {
        self.0.parts(stack).native
    }

    /// Returns the number of stacks, and how many were refused.
    #[must_use]
    pub fn counts(&self) -> (usize, u64) {
        (self.0.n_stacks(), self.0.n_refused())
    }
}
