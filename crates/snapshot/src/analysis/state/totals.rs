//! The figures of one moment: what is allocated, in use and reserved.

use serde::Serialize;

use crate::history::{Life, Moment};

/// The figures of one moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct Totals {
    /// The moment.
    #[serde(rename = "event")]
    pub moment: Moment,
    /// The requested bytes of the blocks in use: those that the program holds, and those whose free waits for a stream. The
    /// viewer's timeline draws this figure. Of a sampled heap it is an estimate ([`Life::represented_bytes`]), as is the
    /// next one.
    pub active_bytes: u64,
    /// The requested bytes of the blocks that the program holds.
    pub allocated_bytes: u64,
    /// The bytes of the blocks in use, with the least that rounding can have added ([`Life::bytes`]). Not in JSON.
    #[serde(skip)]
    pub rounded_bytes: u64,
    /// The bytes that are held from the device.
    pub reserved_bytes: u64,
    /// The number of blocks in use.
    #[serde(rename = "blocks")]
    pub n_blocks: usize,
}

impl Totals {
    /// Returns the bytes that are held from the device and in no block: cached, or wasted.
    #[must_use]
    pub fn unused_bytes(&self) -> u64 {
        self.reserved_bytes.saturating_sub(self.rounded_bytes)
    }

    /// Returns the bytes that rounding adds to the blocks in use, at the least.
    #[must_use]
    pub fn rounding_bytes(&self) -> u64 {
        self.rounded_bytes.saturating_sub(self.active_bytes)
    }

    /// Applies what happens to a block at the moment.
    pub(super) fn change(&mut self, life: &Life) {
        if life.from == self.moment {
            self.add(life);
            self.allocate(life);
        }
        if life.requested == self.moment {
            self.request(life);
        }
        if life.until == self.moment {
            self.end(life);
        }
    }

    pub(super) fn add(&mut self, life: &Life) {
        self.active_bytes = self.active_bytes.saturating_add(life.represented_bytes);
        self.rounded_bytes = self.rounded_bytes.saturating_add(life.bytes);
        self.n_blocks += 1;
    }

    pub(super) fn allocate(&mut self, life: &Life) {
        self.allocated_bytes = self.allocated_bytes.saturating_add(life.represented_bytes);
    }

    fn request(&mut self, life: &Life) {
        self.allocated_bytes = self.allocated_bytes.saturating_sub(life.represented_bytes);
    }

    fn end(&mut self, life: &Life) {
        self.active_bytes = self.active_bytes.saturating_sub(life.represented_bytes);
        self.rounded_bytes = self.rounded_bytes.saturating_sub(life.bytes);
        self.n_blocks = self.n_blocks.saturating_sub(1);
    }
}
