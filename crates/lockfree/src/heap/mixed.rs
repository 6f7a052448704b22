//! Spreads the bits of addresses: multiples of 16, which follow each other.
#![forbid(unsafe_code)]

use std::hash::Hasher;

/// Returns the bits of an address spread over a word; multiples of 16 differ in their high bits.
#[inline]
#[must_use]
pub fn mixed(address: u64) -> u64 {
    (address >> 4).wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

/// A hash of one address.
#[derive(Debug, Default)]
pub(super) struct Mixed(u64);

impl Hasher for Mixed {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    #[inline]
    fn write_u64(&mut self, address: u64) {
        self.0 = mixed(self.0 ^ address);
    }

    #[inline]
    fn finish(&self) -> u64 {
        // A map takes the low bits too.
        self.0.rotate_left(26)
    }
}
