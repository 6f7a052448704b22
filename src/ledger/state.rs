//! The state of a ledger: segments and live blocks by address.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;

use super::contradiction::{Contradiction, Reason, Reported};
use crate::recorder::tiled;
use memreel_snapshot::words::{
    Address, BlockState, InventoryBlock, InventorySegment, PoolId, StackId, StreamId, torch::kind_of_segment,
};

/// The segments and live blocks by address.
#[derive(Debug, Default)]
pub(super) struct LedgerState {
    pub(super) segments: BTreeMap<u64, LedgerSegment>,
    pub(super) blocks: BTreeMap<u64, LiveBlock>,
    pub(super) n_contradictions: u64,
    pub(super) latest_contradiction: Option<Contradiction>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct LedgerSegment {
    pub(super) bytes: u64,
    pub(super) stream: StreamId,
    pub(super) stack: StackId,
    pub(super) origin: Origin,
}

/// How a segment came to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Origin {
    /// It was reported.
    Reported,
    /// Created for one allocation outside all segments, and removed with it.
    Implied,
    /// Memory was mapped into a range of addresses.
    Mapped,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct LiveBlock {
    pub(super) bytes: u64,
    pub(super) stream: StreamId,
    pub(super) stack: StackId,
    /// Whether its free was requested and has not completed.
    pub(super) is_pending: bool,
}

impl LedgerState {
    /// Counts a rejected report, and returns it as the error.
    pub(super) fn refuse(&mut self, address: Address, reason: Reason) -> Reported {
        let contradiction = Contradiction { address, reason };
        self.n_contradictions += 1;
        self.latest_contradiction = Some(contradiction);
        Err(contradiction)
    }

    /// Returns the addresses of the mapped segments that are completely in a range.
    pub(super) fn mapped_in(&self, address: Address, bytes: u64) -> Vec<u64> {
        let range = address.0..address.0.saturating_add(bytes);
        let is_whole = |(at, segment): &(&u64, &LedgerSegment)| {
            segment.origin == Origin::Mapped && at.saturating_add(segment.bytes) <= range.end
        };
        self.segments.range(range.clone()).filter(is_whole).map(|(at, _)| *at).collect()
    }

    pub(super) fn segment_overlap(&self, start: u64, bytes: u64) -> Option<Reason> {
        let (at, segment) = self.segments.range(..start.saturating_add(bytes)).next_back()?;
        let reason = Reason::OverlapsSegment { address: Address(*at), bytes: segment.bytes };
        (at.saturating_add(segment.bytes) > start).then_some(reason)
    }

    pub(super) fn block_overlap(&self, start: u64, bytes: u64) -> Option<Reason> {
        let (at, block) = self.blocks.range(..start.saturating_add(bytes)).next_back()?;
        let reason = Reason::OverlapsBlock { address: Address(*at), bytes: block.bytes };
        (at.saturating_add(block.bytes) > start).then_some(reason)
    }

    pub(super) fn is_in_a_segment(&self, start: u64, bytes: u64) -> bool {
        let last = self.segments.range(..=start).next_back();
        last.is_some_and(|(at, segment)| at.saturating_add(segment.bytes) >= start.saturating_add(bytes))
    }

    /// Returns a segment without gaps: its live blocks, with inactive blocks between them.
    pub(super) fn inventory_of(&self, start: u64, segment: LedgerSegment) -> InventorySegment {
        let end = start + segment.bytes;
        let active = self.blocks.range(start..end).map(|(address, block)| InventoryBlock {
            address: Address(*address),
            size_bytes: block.bytes,
            requested_bytes: block.bytes,
            state: if block.is_pending { BlockState::ActivePendingFree } else { BlockState::ActiveAllocated },
            stack: block.stack,
        });
        InventorySegment {
            address: Address(start),
            size_bytes: segment.bytes,
            stream: segment.stream,
            kind: kind_of_segment(segment.bytes),
            pool: PoolId::DEFAULT,
            is_expandable: segment.origin == Origin::Mapped,
            stack: segment.stack,
            blocks: tiled(start, end, active),
        }
    }
}

/// Returns why a range is invalid: it is empty or leaves the address space.
pub(super) fn invalid(address: Address, bytes: u64) -> Option<Reason> {
    match address.0.checked_add(bytes) {
        _ if bytes == 0 => Some(Reason::Empty),
        None => Some(Reason::BeyondAddresses),
        Some(_) => None,
    }
}
