//! Counts what the events of a document use: actions, stacks and shapes.

use super::{ShapeId, StackIndex, TraceEntry};
use crate::words::Action;

/// How often the events of a document's devices use each action, stack and shape.
///
/// The writer of a file needs them before the first event, and they are small: where they are known, the document need
/// not be read for them.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct UseCounts {
    actions: [u32; Action::ALL.len()],
    stacks: Counts,
    shapes: Counts,
}

/// Uses by number, and the numbers in the order of their first use.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Counts {
    by_number: Vec<u32>,
    order: Vec<u32>,
}

impl Counts {
    #[inline(always)]
    fn add(&mut self, number: u32, n_uses: u32) {
        match self.by_number.get_mut(number as usize) {
            Some(count) if *count > 0 => *count = count.saturating_add(n_uses),
            _ => self.first(number, n_uses),
        }
    }

    #[cold]
    fn first(&mut self, number: u32, n_uses: u32) {
        if n_uses == 0 {
            return;
        }
        let n_numbers = self.by_number.len().max(number as usize + 1);
        self.by_number.resize(n_numbers, 0);
        self.by_number[number as usize] = n_uses;
        self.order.push(number);
    }

    fn iter(&self) -> impl Iterator<Item = (u32, u32)> {
        self.order.iter().map(|number| (*number, self.by_number[*number as usize]))
    }
}

impl UseCounts {
    /// Counts one more event.
    #[inline(always)]
    pub fn add(&mut self, entry: &TraceEntry) {
        if let Some(action) = entry.action {
            self.add_action(action, 1);
        }
        if let Some(stack) = entry.stack {
            self.stacks.add(stack.0, 1);
        }
        self.shapes.add(entry.shape.0, 1);
    }

    /// Counts uses of an action.
    #[inline(always)]
    pub fn add_action(&mut self, action: Action, n_uses: u32) {
        let count = &mut self.actions[action as usize];
        *count = count.saturating_add(n_uses);
    }

    /// Counts uses of a stack.
    pub fn add_stack(&mut self, stack: StackIndex, n_uses: u32) {
        self.stacks.add(stack.0, n_uses);
    }

    /// Counts uses of a shape.
    pub fn add_shape(&mut self, shape: ShapeId, n_uses: u32) {
        self.shapes.add(shape.0, n_uses);
    }

    /// Returns every action that is used, with its uses.
    pub fn actions(&self) -> impl Iterator<Item = (Action, u32)> {
        Action::ALL.iter().copied().zip(self.actions).filter(|(_, n_uses)| *n_uses > 0)
    }

    /// Returns every stack that is used, in the order of first use, with its uses.
    pub fn stacks(&self) -> impl Iterator<Item = (StackIndex, u32)> {
        self.stacks.iter().map(|(number, n_uses)| (StackIndex(number), n_uses))
    }

    /// Returns every shape that is used, in the order of first use, with its uses.
    pub fn shapes(&self) -> impl Iterator<Item = (ShapeId, u32)> {
        self.shapes.iter().map(|(number, n_uses)| (ShapeId(number), n_uses))
    }

    /// Adds the counts of later events, with the numbers that their stacks and shapes have here.
    pub fn extend(
        &mut self,
        other: &UseCounts,
        stack: impl Fn(StackIndex) -> StackIndex,
        shape: impl Fn(ShapeId) -> ShapeId,
    ) {
        for (count, n_uses) in self.actions.iter_mut().zip(other.actions) {
            *count = count.saturating_add(n_uses);
        }
        other.stacks().for_each(|(number, n_uses)| self.stacks.add(stack(number).0, n_uses));
        other.shapes().for_each(|(number, n_uses)| self.shapes.add(shape(number).0, n_uses));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uses_are_counted_in_the_order_of_the_first() {
        let entry = |stack: Option<u32>, shape| TraceEntry {
            stack: stack.map(StackIndex),
            shape: ShapeId(shape),
            action: Some(Action::Alloc),
            ..TraceEntry::default()
        };
        let mut uses = UseCounts::default();
        [entry(Some(7), 1), entry(None, 0), entry(Some(2), 1), entry(Some(7), 1)]
            .iter()
            .for_each(|entry| uses.add(entry));
        let stacks: Vec<_> = uses.stacks().map(|(stack, n_uses)| (stack.0, n_uses)).collect();
        let shapes: Vec<_> = uses.shapes().map(|(shape, n_uses)| (shape.0, n_uses)).collect();
        assert_eq!((&stacks[..], &shapes[..]), (&[(7, 2), (2, 1)][..], &[(1, 3), (0, 1)][..]));
        let mut twice = uses.clone();
        twice.extend(&uses, |_| StackIndex(2), |shape| shape);
        let stacks: Vec<_> = twice.stacks().map(|(stack, n_uses)| (stack.0, n_uses)).collect();
        assert_eq!((stacks, twice.actions().collect()), (vec![(7, 2), (2, 4)], vec![(Action::Alloc, 8)]));
    }
}
