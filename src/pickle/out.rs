//! The bytes on their way out: opcodes with their arguments, through a small buffer.

#![forbid(unsafe_code)]

use std::io::{self, Write};

use super::op;

/// When the buffer is handed on; small, so that it stays in the cache.
const FULL_BYTES: usize = 64 * 1024;

/// A buffer of opcodes in front of a writer.
///
/// The first error of the writer is kept for the end, so that nothing on the
/// way has to pass it on; from then on bytes are dropped.
pub(super) struct Out<W> {
    pub(super) bytes: Vec<u8>,
    sink: W,
    error: Option<io::Error>,
}

impl<W: Write> Out<W> {
    pub(super) fn new(sink: W) -> Self {
        Out { bytes: Vec::with_capacity(FULL_BYTES + 4096), sink, error: None }
    }

    /// Hands the buffer on if it is full; returns whether it is worth going on.
    #[inline]
    pub(super) fn spill(&mut self) -> bool {
        if self.bytes.len() < FULL_BYTES {
            return true;
        }
        self.flush();
        self.error.is_none()
    }

    fn flush(&mut self) {
        if self.error.is_none() {
            self.error = self.sink.write_all(&self.bytes).err();
        }
        self.bytes.clear();
    }

    /// Keeps an error for the end.
    pub(super) fn fail(&mut self, error: io::Error) {
        self.error.get_or_insert(error);
    }

    /// Hands on what is left.
    pub(super) fn finish(mut self) -> io::Result<()> {
        self.flush();
        match self.error {
            Some(error) => Err(error),
            None => self.sink.flush(),
        }
    }

    #[inline]
    pub(super) fn op(&mut self, op: u8) {
        self.bytes.push(op);
    }

    /// An integer in the fewest bytes.
    #[inline]
    pub(super) fn int(&mut self, int: i64) {
        let (bytes, n) = int_bytes(int);
        self.bytes.extend_from_slice(&bytes[..n]);
    }

    /// An integer that may need the 65th bit.
    #[inline]
    pub(super) fn unsigned(&mut self, int: u64) {
        match i64::try_from(int) {
            Ok(int) => self.int(int),
            Err(_) => {
                self.bytes.extend_from_slice(&[op::LONG1, 9]);
                self.bytes.extend_from_slice(&int.to_le_bytes());
                self.bytes.push(0);
            }
        }
    }

    /// An integer given as two's complement, least byte first.
    pub(super) fn big(&mut self, bytes: &[u8]) {
        match u8::try_from(bytes.len()) {
            Ok(n) => self.bytes.extend_from_slice(&[op::LONG1, n]),
            Err(_) => {
                self.op(op::LONG4);
                self.length(bytes.len());
            }
        }
        self.bytes.extend_from_slice(bytes);
    }

    pub(super) fn text(&mut self, text: &str) {
        match u8::try_from(text.len()) {
            Ok(n) => self.bytes.extend_from_slice(&[op::SHORT_BINUNICODE, n]),
            Err(_) => {
                self.op(op::BINUNICODE);
                self.length(text.len());
            }
        }
        self.bytes.extend_from_slice(text.as_bytes());
    }

    /// # Panics
    /// On a text of 4 GiB; nothing that was read or recorded holds one.
    fn length(&mut self, n: usize) {
        let n = u32::try_from(n).expect("texts and integers stay below 4 GiB");
        self.bytes.extend_from_slice(&n.to_le_bytes());
    }

    #[inline]
    pub(super) fn get(&mut self, id: u32) {
        self.numbered(op::BINGET, op::LONG_BINGET, id);
    }

    pub(super) fn put(&mut self, id: u32) {
        self.numbered(op::BINPUT, op::LONG_BINPUT, id);
    }

    #[inline]
    fn numbered(&mut self, short: u8, long: u8, id: u32) {
        match u8::try_from(id) {
            Ok(id) => self.bytes.extend_from_slice(&[short, id]),
            Err(_) => {
                let [a, b, c, d] = id.to_le_bytes();
                self.bytes.extend_from_slice(&[long, a, b, c, d]);
            }
        }
    }
}

/// The opcode of an integer with its argument, and how many of the bytes count.
#[inline]
pub(super) fn int_bytes(int: i64) -> ([u8; 16], usize) {
    let mut all = [0; 16];
    let argument = int.to_le_bytes();
    let n = match int {
        0..=0xff => {
            all[0] = op::BININT1;
            all[1] = argument[0];
            2
        }
        0x100..=0xffff => {
            all[0] = op::BININT2;
            all[1..3].copy_from_slice(&argument[..2]);
            3
        }
        -0x8000_0000..=0x7fff_ffff => {
            all[0] = op::BININT;
            all[1..5].copy_from_slice(&argument[..4]);
            5
        }
        _ => {
            let n_bytes = n_bytes(int);
            all[0] = op::LONG1;
            all[1] = n_bytes as u8;
            all[2..10].copy_from_slice(&argument);
            2 + n_bytes
        }
    };
    (all, n)
}

/// How many bytes of two's complement hold an integer; the sign takes a bit.
#[inline]
fn n_bytes(int: i64) -> usize {
    let magnitude = if int < 0 { !int } else { int };
    let n_bits = 65 - magnitude.leading_zeros() as usize;
    n_bits.div_ceil(8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_take_the_fewest_bytes() {
        let length = |int: i64| int_bytes(int).1;
        assert_eq!([0, 255, 256, 65535, 65536, -1].map(length), [2, 2, 3, 3, 5, 5]);
        assert_eq!(
            [i64::from(i32::MAX), i64::from(i32::MIN), 1 << 31, -(1 << 31) - 1].map(length),
            [5, 5, 7, 7]
        );
        assert_eq!([(1 << 39) - 1, 1 << 39, i64::MAX, i64::MIN].map(length), [7, 8, 10, 10]);
    }
}
