//! Blocks from their alloc to the end of their free, in moments of one device's history.

use crate::{event::StreamId, snapshot::StackIndex};

/// How many entries of a trace have happened: 0 is before the first, and entry `i` is over at `i + 1`.
///
/// A trace has fewer than 2^32 - 1 entries; files with more do not fit into memory's worth of a machine.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Moment(pub u32);

impl Moment {
    /// Before the first entry.
    pub const START: Moment = Moment(0);

    /// Not within the history.
    pub const NEVER: Moment = Moment(u32::MAX);

    /// Just after an entry.
    #[must_use]
    pub fn after(entry: usize) -> Moment {
        Moment(u32::try_from(entry + 1).unwrap_or(u32::MAX - 1))
    }

    /// How many entries have happened.
    #[must_use]
    pub fn n_entries(self) -> usize {
        self.0 as usize
    }

    /// The entry that has just happened; `None` before the first.
    #[must_use]
    pub fn entry(self) -> Option<usize> {
        self.n_entries().checked_sub(1)
    }
}

/// One use of an address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Life {
    /// Where the block begins.
    pub address: u64,
    /// What was asked for.
    pub requested_bytes: u64,
    /// The size after rounding, if the block is there at the end; otherwise the least it can have
    /// been, a multiple of 512.
    pub bytes: u64,
    /// On which stream.
    pub stream: StreamId,
    /// Who asked; `None` if nobody recorded it.
    pub stack: Option<StackIndex>,
    /// The moment from which it is there; [`Moment::START`] if it was there before the history.
    pub from: Moment,
    /// The moment at which its free was requested; [`Moment::START`] if before the history,
    /// [`Moment::NEVER`] if not.
    pub requested: Moment,
    /// The moment at which it was free; [`Moment::NEVER`] if it is there at the end.
    pub until: Moment,
}

impl Life {
    /// Whether the block is in use, waiting for a stream or not.
    #[must_use]
    pub fn is_active_at(&self, moment: Moment) -> bool {
        self.from <= moment && moment < self.until
    }

    /// Whether the program holds the block.
    #[must_use]
    pub fn is_allocated_at(&self, moment: Moment) -> bool {
        self.is_active_at(moment) && moment < self.requested
    }

    /// Whether it was there before the history.
    #[must_use]
    pub fn is_from_before(&self) -> bool {
        self.from == Moment::START
    }
}
