//! An offset in the bytes for the fast path, whose reads report only whether they succeeded.
//!
//! A cursor is not part of the parser, so that the offset stays in a register
//! while an entry is decoded.

#![forbid(unsafe_code)]

use super::integer::{MAX_SAFE, long};
use crate::{pickle::opcode, words::Address};

/// The offset of the next byte to read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cursor<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) pos: usize,
}

/// One to eight bytes, compared in one step.
#[derive(Clone, Copy, Debug)]
pub(super) struct Prefix {
    bytes: u64,
    mask: u64,
    n_bytes: usize,
}

impl Prefix {
    /// Returns the prefix of these bytes, if they are one to eight.
    pub(super) fn new(bytes: &[u8]) -> Option<Prefix> {
        let mut all = [0; 8];
        all.get_mut(..bytes.len())?.copy_from_slice(bytes);
        let mask = u64::MAX.checked_shr(64 - 8 * u32::try_from(bytes.len()).ok()?)?;
        Some(Prefix { bytes: u64::from_le_bytes(all), mask, n_bytes: bytes.len() })
    }
}

impl Cursor<'_> {
    /// Reads an integer that is not negative.
    #[inline(always)]
    pub(super) fn unsigned(&mut self) -> Option<u64> {
        u64::try_from(self.int()?).ok()
    }

    /// Reads an address: an integer that is not negative, or one of 2^63 to 2^64 - 1.
    #[inline(always)]
    pub(super) fn address(&mut self) -> Option<Address> {
        let start = self.pos;
        let address = self.unsigned().or_else(|| {
            self.pos = start;
            self.large_unsigned()
        });
        address.map(Address)
    }

    /// Reads an integer of nine bytes, of which the last is 0.
    #[cold]
    fn large_unsigned(&mut self) -> Option<u64> {
        let [opcode::LONG1, 9, low @ .., 0] = self.next_bytes::<11>()? else { return None };
        let int = u64::from_le_bytes(low);
        (int >= 1 << 63).then_some(int)
    }

    /// Reads an integer that breaks no rule: at most 2^53 in magnitude.
    #[inline(always)]
    pub(super) fn int(&mut self) -> Option<i64> {
        match self.next_byte()? {
            opcode::LONG1 => {
                let n_bytes = usize::from(self.next_byte()?);
                if n_bytes > 8 {
                    return None;
                }
                let int = match self.bytes.get(self.pos..self.pos + 8) {
                    // The bytes after the integer's own are shifted out.
                    Some(eight) if n_bytes > 0 => {
                        let all = i64::from_le_bytes(eight.try_into().ok()?);
                        let n_spare = 64 - 8 * n_bytes;
                        all << n_spare >> n_spare
                    }
                    _ => long(self.bytes.get(self.pos..self.pos + n_bytes)?)?,
                };
                self.pos += n_bytes;
                (-MAX_SAFE..=MAX_SAFE).contains(&int).then_some(int)
            }
            opcode::BININT1 => Some(i64::from(self.next_byte()?)),
            opcode::BININT => Some(i64::from(i32::from_le_bytes(self.next_bytes()?))),
            opcode::BININT2 => Some(i64::from(u16::from_le_bytes(self.next_bytes()?))),
            _ => None,
        }
    }

    /// Requires these bytes next. Fails also within eight bytes of the file's end.
    #[inline(always)]
    pub(super) fn expect_prefix(&mut self, prefix: Prefix) -> Option<()> {
        let bytes = self.bytes.get(self.pos..)?.first_chunk()?;
        self.pos += prefix.n_bytes;
        (u64::from_le_bytes(*bytes) & prefix.mask == prefix.bytes).then_some(())
    }

    /// Skips an opcode that puts something in the memo; returns whether there was one.
    pub(super) fn skip_memo_opcode(&mut self) -> bool {
        let n_bytes = match self.bytes.get(self.pos) {
            Some(&opcode::MEMOIZE) => 1,
            Some(&opcode::BINPUT) => 2,
            Some(&opcode::LONG_BINPUT) => 5,
            _ => 0,
        };
        self.pos += n_bytes;
        n_bytes > 0
    }

    #[inline(always)]
    pub(super) fn next_byte(&mut self) -> Option<u8> {
        let byte = *self.bytes.get(self.pos)?;
        self.pos += 1;
        Some(byte)
    }

    #[inline(always)]
    pub(super) fn next_bytes<const N: usize>(&mut self) -> Option<[u8; N]> {
        let array = *self.bytes.get(self.pos..)?.first_chunk()?;
        self.pos += N;
        Some(array)
    }

    /// Skips this opcode if it is next; returns whether it was.
    #[inline(always)]
    pub(super) fn accept(&mut self, op: u8) -> bool {
        let is_next = self.bytes.get(self.pos) == Some(&op);
        self.pos += usize::from(is_next);
        is_next
    }

    #[inline(always)]
    pub(super) fn expect(&mut self, op: u8) -> Option<()> {
        self.accept(op).then_some(())
    }
}
