//! Blocks from their alloc to the end of their free, in moments of one device's history.

use serde::{Serialize, Serializer};

use crate::{
    model::StackIndex,
    words::{Address, StreamId},
};

/// A point of a device's history, as the number of entries of its trace that have happened.
///
/// 0 is before the first entry, and entry `i` is over at `i + 1`. A trace has fewer than 2^32 - 1 entries.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Moment(pub u32);

impl Moment {
    /// Before the first entry.
    pub const START: Moment = Moment(0);

    /// Not within the history.
    pub const NEVER: Moment = Moment(u32::MAX);

    /// Returns the moment right after an entry.
    #[must_use]
    pub fn after(entry: usize) -> Moment {
        Moment(u32::try_from(entry + 1).unwrap_or(u32::MAX - 1))
    }

    /// Returns the number of entries that have happened.
    #[must_use]
    pub fn n_entries(self) -> usize {
        self.0 as usize
    }

    /// Returns the entry that has just happened; `None` before the first.
    #[must_use]
    pub fn entry(self) -> Option<usize> {
        self.n_entries().checked_sub(1)
    }
}

/// A moment serialises as the entry that has just happened, and outside the history as null.
impl Serialize for Moment {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.entry().filter(|_| *self != Moment::NEVER).serialize(serializer)
    }
}

/// One use of an address: a block from its alloc to the end of its free.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[non_exhaustive]
pub struct Life {
    /// Where the block begins.
    pub address: Address,
    /// The bytes that were requested.
    pub requested_bytes: u64,
    /// The bytes that it counts for in figures: those that were requested; for a sampled heap, an unbiased estimate for
    /// all the blocks that it stands for; 0 for memory that is mapped again and counts where it was mapped first.
    #[serde(skip)]
    pub represented_bytes: u64,
    /// The size after rounding, if the block is in use at the end; otherwise the minimum that it can have been, a
    /// multiple of 512.
    pub bytes: u64,
    /// The stream that it was allocated on.
    pub stream: StreamId,
    /// The stack of its allocation; `None` if it was not recorded.
    pub stack: Option<StackIndex>,
    /// The moment from which it is in use; [`Moment::START`] if it was in use before the history.
    pub from: Moment,
    /// The moment at which its free was requested; [`Moment::START`] if before the history,
    /// [`Moment::NEVER`] if not within it.
    pub requested: Moment,
    /// The moment at which it was free; [`Moment::NEVER`] if it is in use at the end.
    pub until: Moment,
}

impl Life {
    /// A life of which nothing but the block is known: in use from before the history to its end.
    pub(crate) fn unbounded(address: Address, requested_bytes: u64, bytes: u64, stream: StreamId) -> Life {
        Life {
            address,
            requested_bytes,
            represented_bytes: requested_bytes,
            bytes,
            stream,
            stack: None,
            from: Moment::START,
            requested: Moment::NEVER,
            until: Moment::NEVER,
        }
    }

    /// Returns whether the block is in use, its free requested or not.
    #[must_use]
    pub fn is_active_at(&self, moment: Moment) -> bool {
        self.from <= moment && moment < self.until
    }

    /// Returns whether the program holds the block.
    #[must_use]
    pub fn is_allocated_at(&self, moment: Moment) -> bool {
        self.is_active_at(moment) && moment < self.requested
    }

    /// Returns whether it was in use before the history.
    #[must_use]
    pub fn is_from_before(&self) -> bool {
        self.from == Moment::START
    }
}
