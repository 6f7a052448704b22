//! Which addresses are live while a trace is read, and what contradicts that.

use std::collections::BTreeMap;

use rustc_hash::FxHashSet;

use super::requests::SlotIndex;

/// A value, or what contradicts it.
pub(super) type Checked<T> = Result<T, String>;

/// The blocks of a trace so far.
#[derive(Debug, Default)]
pub(super) struct Books {
    live: BTreeMap<u64, Live>,
    /// Addresses whose block was seen to be freed.
    freed: FxHashSet<u64>,
    vacant: Vec<SlotIndex>,
    n_slots: SlotIndex,
}

/// A block that is held, or waits for a stream.
#[derive(Clone, Copy, Debug)]
pub(super) struct Live {
    pub(super) bytes: u64,
    pub(super) slot: SlotIndex,
    pub(super) is_pending: bool,
}

/// What a free says of its block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Freed {
    /// It was known.
    Known(SlotIndex),
    /// It was live before the trace began.
    New(SlotIndex),
}

impl Freed {
    pub(super) fn slot(self) -> SlotIndex {
        let (Freed::Known(slot) | Freed::New(slot)) = self;
        slot
    }
}

impl Books {
    /// A block is handed out.
    pub(super) fn alloc(&mut self, address: u64, bytes: u64) -> Checked<SlotIndex> {
        let end =
            address.checked_add(bytes).ok_or_else(|| format!("{bytes} bytes at {address:#x} do not fit"))?;
        if let Some((at, live)) =
            self.live.range(..end).next_back().filter(|(at, live)| *at + live.bytes > address)
        {
            let was = if live.is_pending { "whose free is not completed" } else { "that is live" };
            return Err(format!(
                "a double alloc: {bytes} bytes at {address:#x} lie over the block of {} bytes at {at:#x} {was}",
                live.bytes
            ));
        }
        let slot = self.vacant.pop().unwrap_or_else(|| self.new_slot());
        self.live.insert(address, Live { bytes, slot, is_pending: false });
        Ok(slot)
    }

    /// A block that was there before the trace began is put in its place.
    fn prior(&mut self, address: u64, bytes: u64, is_pending: bool) -> Checked<SlotIndex> {
        let end =
            address.checked_add(bytes).ok_or_else(|| format!("{bytes} bytes at {address:#x} do not fit"))?;
        if let Some((at, _)) =
            self.live.range(..end).next_back().filter(|(at, live)| *at + live.bytes > address)
        {
            return Err(format!("a free of {address:#x}, which lies in the live block at {at:#x}"));
        }
        // A slot that another block has had would be taken at the beginning.
        let slot = self.new_slot();
        self.live.insert(address, Live { bytes, slot, is_pending });
        Ok(slot)
    }

    /// A block is given back; another stream may still use it.
    pub(super) fn request_free(&mut self, address: u64, bytes: u64) -> Checked<Freed> {
        match self.live.get_mut(&address) {
            Some(live) if live.is_pending => Err(format!("a second free of {address:#x}")),
            Some(live) if live.bytes != bytes => {
                Err(format!("a free of {bytes} bytes at {address:#x}, where {} were allocated", live.bytes))
            }
            Some(live) => {
                live.is_pending = true;
                Ok(Freed::Known(live.slot))
            }
            None if self.freed.contains(&address) => Err(format!("a second free of {address:#x}")),
            None => self.prior(address, bytes, true).map(Freed::New),
        }
    }

    /// Nobody uses a block any more. Without a request before it, the request
    /// was not recorded: the program gave it back no later than now.
    pub(super) fn complete_free(&mut self, address: u64, bytes: u64) -> Checked<(Freed, bool)> {
        let (freed, was_requested) = match self.live.get(&address) {
            Some(live) if live.bytes != bytes => {
                return Err(format!(
                    "a completed free of {bytes} bytes at {address:#x}, where {} were allocated",
                    live.bytes
                ));
            }
            Some(live) => (Freed::Known(live.slot), live.is_pending),
            None if self.freed.contains(&address) => {
                return Err(format!("the free of {address:#x} is completed a second time"));
            }
            None => (Freed::New(self.prior(address, bytes, true)?), false),
        };
        self.live.remove(&address);
        self.freed.insert(address);
        self.vacant.push(freed.slot());
        Ok((freed, was_requested))
    }

    pub(super) fn get(&self, address: u64) -> Option<Live> {
        self.live.get(&address).copied()
    }

    /// Whether the trace has seen a block come or go at this address.
    pub(super) fn knows(&self, address: u64) -> bool {
        self.live.contains_key(&address) || self.freed.contains(&address)
    }

    /// A block that was live all along, and never seen.
    pub(super) fn new_slot(&mut self) -> SlotIndex {
        self.n_slots += 1;
        self.n_slots - 1
    }

    pub(super) fn n_slots(&self) -> usize {
        self.n_slots as usize
    }

    /// What is live or waits at the end of the trace, by address.
    pub(super) fn live(&self) -> impl Iterator<Item = (u64, Live)> {
        self.live.iter().map(|(address, live)| (*address, *live))
    }
}
