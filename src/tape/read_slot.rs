//! A slot as it was read.
#![forbid(unsafe_code)]

use super::layout::{Kind, SLOT_HEADER_BYTES, SlotWord, is_intact};
use memreel_snapshot::words::DeviceId;

/// A slot with what was read of it.
pub(super) struct ReadSlot {
    pub(super) number: u32,
    pub(super) words: [u64; SLOT_HEADER_BYTES / 8],
    pub(super) kind: Kind,
    pub(super) body: Vec<u8>,
}

impl ReadSlot {
    pub(super) fn word(&self, word: SlotWord) -> u64 {
        self.words[word as usize]
    }

    pub(super) fn device(&self) -> DeviceId {
        DeviceId(self.word(SlotWord::Device).cast_signed())
    }

    /// Returns whether a sealed body is unchanged.
    pub(super) fn is_sound(&self) -> bool {
        let sum = self.word(SlotWord::Checksum);
        sum == 0 || is_intact(&self.body, sum)
    }
}
