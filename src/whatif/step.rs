//! The steps of a run, and the blocks with which it starts.

use memreel_snapshot::{
    model::StackIndex,
    words::{Address, StreamId},
};

/// The number of a block among those that are live at the same time. It is reused after the block is free.
pub(super) type SlotIndex = u32;

/// The index of an entry in its trace.
pub(super) type EntryIndex = u32;

/// An action of the program or of a stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Step {
    /// The program requested a block.
    Alloc { request: Request, slot: SlotIndex },
    /// The program requested a block, and there was no memory.
    Fail { request: Request },
    /// The program freed a block that no other stream used.
    Free { slot: SlotIndex, entry: EntryIndex },
    /// The program freed a block that another stream still used.
    FreeLater { slot: SlotIndex, entry: EntryIndex },
    /// The other stream was done with a freed block.
    Complete { slot: SlotIndex, entry: EntryIndex },
    /// The program emptied the cache.
    EmptyCache { entry: EntryIndex },
}

/// A request, and the entry from which it was read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Request {
    pub(super) bytes: u64,
    pub(super) stream: StreamId,
    pub(super) entry: EntryIndex,
    /// The private pool, counted from 1 in `Requests::pools`; 0 is the default pool.
    pub(super) pool: u16,
}

impl Step {
    /// Returns the entry from which the step was read.
    pub(super) fn entry(&self) -> usize {
        let (Step::Alloc { request: Request { entry, .. }, .. }
        | Step::Fail { request: Request { entry, .. } }
        | Step::Free { entry, .. }
        | Step::FreeLater { entry, .. }
        | Step::Complete { entry, .. }
        | Step::EmptyCache { entry }) = self;
        *entry as usize
    }
}

/// A block that was live before the first entry, or whose free was not completed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Prior {
    pub(super) address: Address,
    pub(super) bytes: u64,
    pub(super) stream: StreamId,
    pub(super) pool: u16,
    pub(super) slot: SlotIndex,
    /// The stack of the block, if it is live at the end; the trace does not have it.
    pub(super) stack: Option<StackIndex>,
    /// The size of the block in bytes, if it is live at the end.
    pub(super) block_bytes: Option<u64>,
    /// Whether its free was requested before the first entry.
    pub(super) is_pending: bool,
}
