//! The same stack is the same number.

use indexmap::IndexSet;
use rustc_hash::FxBuildHasher;

use crate::event::StackId;

/// Every distinct stack seen, as return addresses, innermost first.
///
/// Stacks stay for the table's life: a live block may outlast the entry that
/// brought its stack.
#[derive(Debug, Default)]
pub(crate) struct StackTable(IndexSet<Box<[usize]>, FxBuildHasher>);

impl StackTable {
    /// The number of a stack. A table with no number left gives `NONE`.
    pub(crate) fn intern(&mut self, addresses: &[usize]) -> StackId {
        let index = match self.0.get_index_of(addresses) {
            Some(index) => index,
            None => self.0.insert_full(addresses.into()).0,
        };
        u32::try_from(index).map_or(StackId::NONE, StackId)
    }

    /// How many distinct stacks there are.
    pub(crate) fn n_stacks(&self) -> usize {
        self.0.len()
    }

    /// The addresses of a stack; none for [`StackId::NONE`].
    pub(crate) fn addresses(&self, stack: StackId) -> &[usize] {
        self.0.get_index(stack.0 as usize).map_or(&[], |addresses| addresses)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_stack_is_the_same_number() {
        let mut table = StackTable::default();
        let a = table.intern(&[1, 2, 3]);
        let b = table.intern(&[1, 2]);
        assert_ne!(a, b);
        assert_eq!(table.intern(&[1, 2, 3]), a);
        assert_eq!(table.addresses(b), [1, 2]);
        assert_eq!(table.addresses(StackId::NONE), [0; 0]);
    }
}
