//! Determines whether the frees of a trace have the stacks of their allocations.
//!
//! They have if it was recorded with context "alloc" (`docs/snapshot-format.md` 2.2). No key of a file
//! records the context, so the frees whose alloc is known decide.

use crate::model::{StackIndex, StackTable};

/// The evidence from the frees of a trace.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FreeStacks {
    /// A stack that an alloc and its free share.
    shared: Option<StackIndex>,
    /// Whether there is another such stack.
    has_several: bool,
    /// Whether a free has another stack than its alloc.
    has_other: bool,
}

impl FreeStacks {
    /// Takes the stacks of an alloc and of its free.
    pub(crate) fn compare(&mut self, alloc: Option<StackIndex>, free: Option<StackIndex>) {
        match (alloc, free) {
            (Some(alloc), Some(free)) if alloc != free => self.has_other = true,
            (Some(alloc), Some(_)) if alloc != StackTable::EMPTY => {
                self.has_several |= *self.shared.get_or_insert(alloc) != alloc;
            }
            _ => {}
        }
    }

    /// Returns whether a free has the stack of its allocation.
    ///
    /// One line of a program may allocate a block and free the one before, so one stack proves nothing.
    pub(crate) fn are_of_allocations(self) -> bool {
        self.has_several && !self.has_other
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_stacks_are_needed_and_no_other() {
        let of = |pairs: &[(u32, u32)]| {
            let mut stacks = FreeStacks::default();
            let stack = |number| Some(StackIndex(number));
            pairs.iter().for_each(|(alloc, free)| stacks.compare(stack(*alloc), stack(*free)));
            stacks.compare(stack(5), None);
            stacks.compare(None, stack(6));
            stacks.are_of_allocations()
        };
        assert!(of(&[(1, 1), (2, 2), (1, 1)]));
        for pairs in [&[][..], &[(1, 1), (1, 1)], &[(1, 1), (0, 0)], &[(1, 1), (2, 2), (3, 4)]] {
            assert!(!of(pairs), "{pairs:?}");
        }
    }
}
