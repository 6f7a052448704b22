//! Tracks the live blocks while a trace is read. A trace that contradicts itself is an error.

use super::step::SlotIndex;
use memreel_snapshot::{
    history::{Contradiction, Extent, Forward, Live, Places, Step},
    model::TraceEntry,
    words::Address,
};

/// A value, or a description of the contradiction.
pub(super) type Checked<T> = Result<T, String>;

/// The live blocks after the entries that were read so far.
#[derive(Debug)]
pub(super) struct LiveBlocks<'a> {
    walk: Forward,
    live: Live<'a, LiveBlock>,
    vacant: Vec<SlotIndex>,
    n_slots: SlotIndex,
}

/// A block that the program holds, or whose free is not completed.
#[derive(Clone, Copy, Debug)]
pub(super) struct LiveBlock {
    pub(super) bytes: u64,
    end: Address,
    pub(super) slot: SlotIndex,
    pub(super) is_pending: bool,
}

impl Extent for LiveBlock {
    fn end(&self) -> Address {
        self.end
    }
}

/// The block of a free.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Freed {
    /// A block with an earlier entry.
    Known(SlotIndex),
    /// A block that was live before the trace started; this is its first entry.
    New(SlotIndex),
}

impl Freed {
    pub(super) fn slot(self) -> SlotIndex {
        let (Freed::Known(slot) | Freed::New(slot)) = self;
        slot
    }
}

impl<'a> LiveBlocks<'a> {
    /// Starts a trace with the given addresses.
    pub(super) fn new(places: &'a Places) -> LiveBlocks<'a> {
        LiveBlocks { walk: Forward::default(), live: Live::new(places), vacant: Vec::new(), n_slots: 0 }
    }

    /// Applies an `alloc`.
    pub(super) fn alloc(&mut self, entry: &TraceEntry) -> Checked<SlotIndex> {
        let TraceEntry { address, size: bytes, .. } = *entry;
        let end = end(entry)?;
        if let Some((at, live)) = self.live.overlapping(address, end) {
            let was = if live.is_pending { "whose free is not completed" } else { "that is live" };
            return Err(format!(
                "a double alloc: {bytes} bytes at {address:#x} overlap the block of {} bytes at {at:#x} {was}",
                live.bytes
            ));
        }
        self.walk.step(entry);
        let slot = self.vacant.pop().unwrap_or_else(|| self.new_slot());
        self.live.insert(address, LiveBlock { bytes, end, slot, is_pending: false });
        Ok(slot)
    }

    /// Applies a `free_requested`: the program frees a block that another stream may still use.
    pub(super) fn request_free(&mut self, entry: &TraceEntry) -> Checked<Freed> {
        let TraceEntry { address, size: bytes, .. } = *entry;
        match self.walk.step(entry) {
            Step::Request { is_prior: true, .. } => self.prior(entry).map(Freed::New),
            Step::Request { began_bytes, .. } if began_bytes != bytes => {
                Err(format!("a free of {bytes} bytes at {address:#x}, where {began_bytes} were allocated"))
            }
            Step::Contradiction(Contradiction::RequestOfPending | Contradiction::RequestOfFree) => {
                Err(format!("a second free of {address:#x}"))
            }
            _ => {
                let live = self.live.get_mut(address).ok_or_else(|| format!("no block at {address:#x}"))?;
                live.is_pending = true;
                Ok(Freed::Known(live.slot))
            }
        }
    }

    /// Applies a `free_completed`. Returns the block, and whether its free was requested; if not, the program
    /// freed the block no later than now.
    pub(super) fn complete_free(&mut self, entry: &TraceEntry) -> Checked<(Freed, bool)> {
        let TraceEntry { address, size: bytes, .. } = *entry;
        let (freed, was_requested) = match self.walk.step(entry) {
            Step::End { is_prior: true, .. } => (Freed::New(self.prior(entry)?), false),
            Step::End { began_bytes, .. } if began_bytes != bytes => {
                return Err(format!(
                    "a completed free of {bytes} bytes at {address:#x}, where {began_bytes} were allocated"
                ));
            }
            Step::Contradiction(Contradiction::CompletionOfFree) => {
                return Err(format!("the free of {address:#x} is completed a second time"));
            }
            _ => {
                let live = self.live.get(address).ok_or_else(|| format!("no block at {address:#x}"))?;
                (Freed::Known(live.slot), live.is_pending)
            }
        };
        self.live.remove(address);
        self.vacant.push(freed.slot());
        Ok((freed, was_requested))
    }

    /// Completes a requested free whose completion was not recorded.
    pub(super) fn complete_unrecorded(&mut self, address: Address) {
        if let Some(live) = self.live.remove(address) {
            self.walk.close(address);
            self.vacant.push(live.slot);
        }
    }

    /// Adds the block of a free that was live before the trace started.
    fn prior(&mut self, entry: &TraceEntry) -> Checked<SlotIndex> {
        let TraceEntry { address, size: bytes, .. } = *entry;
        let end = end(entry)?;
        if let Some((at, _)) = self.live.overlapping(address, end) {
            return Err(format!("a free of {address:#x}, which is in the live block at {at:#x}"));
        }
        // At the start, the slot of another block may be in use.
        let slot = self.new_slot();
        self.live.insert(address, LiveBlock { bytes, end, slot, is_pending: true });
        Ok(slot)
    }

    pub(super) fn get(&self, address: Address) -> Option<LiveBlock> {
        self.live.get(address).copied()
    }

    /// Returns whether an entry of a block has this address.
    pub(super) fn knows(&self, address: Address) -> bool {
        self.walk.spot(address).is_some()
    }

    /// Returns a slot that no block has had.
    pub(super) fn new_slot(&mut self) -> SlotIndex {
        self.n_slots += 1;
        self.n_slots - 1
    }

    pub(super) fn n_slots(&self) -> usize {
        self.n_slots as usize
    }

    /// Returns the blocks that are live or pending at the end of the trace, by address.
    pub(super) fn live(&self) -> impl Iterator<Item = (Address, LiveBlock)> {
        self.live.iter().map(|(address, live)| (address, *live))
    }
}

fn end(entry: &TraceEntry) -> Checked<Address> {
    let TraceEntry { address, size: bytes, .. } = *entry;
    address
        .0
        .checked_add(bytes)
        .map(Address)
        .ok_or_else(|| format!("{bytes} bytes at {address:#x} do not fit"))
}
