//! Counts of the actions, stacks and contexts of events, which the writer of a file needs beforehand.
#![forbid(unsafe_code)]

use super::context::ContextId;
use memreel_snapshot::words::{Action, StackId};

/// Counts over the events of logs. The writer of a file needs them before it writes the first event; to
/// count, 32 bytes of each event are read once.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    /// By [`Action`].
    pub(crate) actions: [u32; Action::ALL.len()],
    /// By [`StackId`].
    pub(crate) stacks: Vec<u32>,
    /// By [`ContextId`].
    pub(crate) contexts: Vec<Kinds>,
}

/// Counts of the four kinds of events in one context; see [`Tally::kind`].
pub(crate) type Kinds = [u32; 4];

impl Tally {
    /// Returns the index into [`Kinds`] of an event. The kind decides which keys its entry has in a file.
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

/// Makes room for `number`. Numbers are consecutive from 0, so `counts` becomes as long as their table.
#[cold]
fn grow<T: Clone + Default>(counts: &mut Vec<T>, number: usize) {
    counts.resize(number + 1, T::default());
}
