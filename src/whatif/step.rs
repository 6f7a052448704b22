//! One thing that a program, or a stream, did; and the blocks it began with.

use crate::{event::Address, event::StreamId, snapshot::StackIndex};

/// The place of a block among those that live at the same time; used again after it is free.
pub(super) type SlotIndex = u32;

/// The place of an entry in its trace.
pub(super) type EntryIndex = u32;

/// One thing the program, or a stream, did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Step {
    /// It asked for a block.
    Alloc { request: Request, slot: SlotIndex },
    /// It asked for a block and there was no memory.
    Fail { request: Request },
    /// It gave a block back that no other stream used.
    Free { slot: SlotIndex, entry: EntryIndex },
    /// It gave a block back that another stream still used.
    FreeLater { slot: SlotIndex, entry: EntryIndex },
    /// That stream had come so far.
    Complete { slot: SlotIndex, entry: EntryIndex },
    /// It emptied the cache.
    EmptyCache { entry: EntryIndex },
}

/// A request with where it was recorded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Request {
    pub(super) bytes: u64,
    pub(super) stream: StreamId,
    pub(super) entry: EntryIndex,
    /// The private pool, counted from 1 in `Requests::pools`; 0 is the default pool.
    pub(super) pool: u16,
}

impl Step {
    /// The entry it was read from.
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

/// A block that was live before the first entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Prior {
    pub(super) address: Address,
    pub(super) bytes: u64,
    pub(super) stream: StreamId,
    pub(super) pool: u16,
    pub(super) slot: SlotIndex,
    /// The stack of the live block, where the snapshot still has it.
    pub(super) stack: Option<StackIndex>,
}
