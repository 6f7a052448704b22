//! What the events of logs have in common, counted: actions, stacks, and contexts with what decides an entry's keys.

use super::ContextId;
use crate::event::{Action, StackId};

/// Counts over events. A file that is written wants them before its first
/// event, and this takes one look at 32 bytes each.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    /// By [`Action`].
    pub(crate) actions: [u32; Action::ALL.len()],
    /// By the stack's number.
    pub(crate) stacks: Vec<u32>,
    /// By the context's number.
    pub(crate) contexts: Vec<Kinds>,
}

/// The events of one context: by being an `oom`, twice, and by having a stack.
pub(crate) type Kinds = [u32; 4];

impl Tally {
    /// Where [`Kinds`] count such an event.
    #[inline(always)]
    pub(crate) fn kind(is_oom: bool, has_stack: bool) -> usize {
        usize::from(is_oom) * 2 + usize::from(has_stack)
    }

    #[inline(always)]
    pub(super) fn add(&mut self, action: Action, stack: StackId, context: ContextId) {
        let n = &mut self.actions[action as usize];
        *n = n.saturating_add(1);
        let has_stack = stack.is_some();
        if has_stack {
            count(&mut self.stacks, stack.0, |n: &mut u32| n);
        }
        let kind = Tally::kind(action == Action::Oom, has_stack);
        count(&mut self.contexts, context.0, |kinds: &mut Kinds| &mut kinds[kind]);
    }
}

#[inline(always)]
fn count<T: Clone + Default>(counts: &mut Vec<T>, number: u32, of: impl Fn(&mut T) -> &mut u32) {
    let number = number as usize;
    if number >= counts.len() {
        grow(counts, number);
    }
    let n = of(&mut counts[number]);
    *n = n.saturating_add(1);
}

/// Numbers are given from 0 upward, so this gets as long as their table.
#[cold]
fn grow<T: Clone + Default>(counts: &mut Vec<T>, number: usize) {
    counts.resize(number + 1, T::default());
}
