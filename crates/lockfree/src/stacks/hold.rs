//! A fork while another thread adds a stack.
#![forbid(unsafe_code)]

use std::sync::Arc;

use super::{memory::Memory, table::Stacks};
use crate::forks::{Held, Process};

impl<M: Memory + 'static> Stacks<M> {
    /// Holds the lock under which stacks are added during a fork. `owner` keeps the table, which `of` returns.
    pub fn hold<P: Process, O: 'static>(
        held: &mut Held<P>,
        owner: &Arc<O>,
        of: impl for<'a> FnOnce(&'a O) -> &'a Stacks<M>,
    ) {
        held.lock(owner, |owner| of(owner).inserter().mutex(), |_, _| {}, |_, _| {});
    }
}
