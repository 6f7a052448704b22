//! The recorded actions of a device, to be repeated.
#![forbid(unsafe_code)]

use super::places::{ALIGNMENT_BYTES, Places};
use memreel_snapshot::words::{Address, StreamId};

/// A recorded action of a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Deed {
    /// It reserved a range.
    Reserved(Address),
    /// It gave a segment.
    Gave {
        /// The first address.
        address: Address,
        /// The bytes.
        size_bytes: u64,
    },
    /// It mapped pages of a range.
    Mapped {
        /// The first address.
        address: Address,
        /// The bytes.
        size_bytes: u64,
        /// The owner of the range: ranges are not shared.
        owner: RangeOwner,
    },
    /// It took memory back.
    Took,
}

/// The stream and the number of the private pool that a range serves.
pub(crate) type RangeOwner = (StreamId, u16);

/// The recorded actions of a device, some of which are due.
#[derive(Debug, Default)]
pub(super) struct Playback {
    pub(super) deeds: Vec<Deed>,
    /// The number of actions that are done or skipped.
    pub(super) n_done: usize,
    /// The number of actions that are done, skipped or due.
    pub(super) n_due: usize,
    /// Whether the device is full after the due actions.
    pub(super) ends_full: bool,
    /// The owner of ranges that are reserved now.
    pub(super) owner: RangeOwner,
}

/// The response of playback to a request for memory.
pub(super) enum Played {
    Full,
    At(Address),
    /// The recorded device was not called.
    Anywhere,
}

impl Playback {
    fn due(&self) -> Option<Deed> {
        self.deeds[self.n_done..self.n_due].first().copied()
    }

    pub(super) fn next(&mut self, bytes: u64) -> Played {
        match self.due() {
            // It gave nothing before memory was returned to it.
            Some(Deed::Took) => Played::Full,
            None if self.ends_full => Played::Full,
            Some(Deed::Gave { address, size_bytes } | Deed::Mapped { address, size_bytes, .. }) => {
                self.n_done += 1;
                if size_bytes == bytes { Played::At(address) } else { Played::Anywhere }
            }
            Some(Deed::Reserved(_)) | None => Played::Anywhere,
        }
    }

    pub(super) fn took(&mut self) {
        self.n_done += usize::from(self.due() == Some(Deed::Took));
    }

    /// Returns the address of the range that is reserved now: the first one, due or not, in which pages are mapped for
    /// the same owner and that is in no range yet. Only small pages are mapped one at a time.
    pub(super) fn reserve(&mut self, ranges: &Places, page_bytes: u64) -> Option<Address> {
        if let Some(Deed::Reserved(address)) = self.due() {
            self.n_done += 1;
            return Some(address);
        }
        let is_small = |bytes: u64| bytes == ALIGNMENT_BYTES;
        self.deeds[self.n_done..].iter().find_map(|deed| match *deed {
            Deed::Mapped { address, size_bytes, owner }
                if owner == self.owner
                    && is_small(size_bytes) == is_small(page_bytes)
                    && !ranges.overlaps(address.0, 1) =>
            {
                Some(address)
            }
            _ => None,
        })
    }
}
