//! Recognises memory that a program unmaps and maps again at the same addresses, as for a sleep and a wake-up: it is
//! not growth, and belongs to the call that mapped it first.

use crate::{
    history::{Life, Moment},
    model::{StackIndex, TraceEntry},
    words::{Action, Address, SeededMap},
};

/// The ranges that were unmapped so far, in the order of the history.
#[derive(Debug)]
pub(super) struct WokenRanges<'a> {
    entries: &'a [TraceEntry],
    /// By address and size, the stack that mapped the range first.
    first: SeededMap<(Address, u64), Option<StackIndex>>,
}

impl<'a> WokenRanges<'a> {
    pub(super) fn new(entries: &'a [TraceEntry]) -> WokenRanges<'a> {
        WokenRanges { entries, first: SeededMap::default() }
    }

    /// Returns a life with the stack that mapped its range first. Lives at one address must be passed in order.
    pub(super) fn of(&mut self, life: &Life) -> Life {
        let mapped = life.from.entry().and_then(|alloc| alloc.checked_sub(1));
        if !life.is_from_before() && !self.is_of_range(mapped, Action::SegmentMap, life) {
            return *life;
        }
        let range = (life.address, life.requested_bytes);
        let stack = self.first.get(&range).copied().unwrap_or(life.stack);
        let unmapped = life.until.entry().filter(|_| life.until != Moment::NEVER).map(|free| free + 1);
        if self.is_of_range(unmapped, Action::SegmentUnmap, life) {
            self.first.insert(range, stack);
        }
        Life { stack, ..*life }
    }

    /// Returns whether an entry maps or unmaps exactly the range of a life.
    fn is_of_range(&self, entry: Option<usize>, action: Action, life: &Life) -> bool {
        entry.and_then(|entry| self.entries.get(entry)).is_some_and(|entry| {
            entry.action == Some(action)
                && (entry.address, entry.size) == (life.address, life.requested_bytes)
        })
    }
}
