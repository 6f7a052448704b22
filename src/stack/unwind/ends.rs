//! Remembers the outer ends of a thread's walks.
#![forbid(unsafe_code)]

use std::cell::Cell;

/// The latest ends of this thread's walks, each as a mark: the stack pointer in the outermost frame, or the complement
/// of the address at which the walk failed.
///
/// There are a few, because a thread may run coroutines.
pub(super) struct Ends([Cell<usize>; 4]);

impl Ends {
    pub(super) const fn new() -> Ends {
        Ends([const { Cell::new(0) }; 4])
    }

    #[inline(always)]
    pub(super) fn is_latest(&self, mark: usize) -> bool {
        self.0[0].get() == mark
    }

    pub(super) fn has(&self, mark: usize) -> bool {
        self.0.iter().any(|end| end.get() == mark)
    }

    /// Adds a mark as the latest, and forgets the oldest.
    pub(super) fn add(&self, mark: usize) {
        for i in (1..self.0.len()).rev() {
            self.0[i].set(self.0[i - 1].get());
        }
        self.0[0].set(mark);
    }
}
