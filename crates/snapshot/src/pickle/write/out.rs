//! The output: opcodes with their arguments, through a small buffer.

#![forbid(unsafe_code)]

use std::io::{self, Write};

use crate::pickle::opcode;

/// The size at which the buffer is written to the sink; small, so that it stays in the cache.
const FULL_BYTES: usize = 64 * 1024;

/// A buffer of opcodes in front of a writer.
///
/// The first error of the sink is kept until the end, so that callers need not
/// handle it at every opcode; from then on bytes are dropped.
pub(super) struct Out<W> {
    /// Always longer than its content, so that short byte strings are copied in
    /// one move of fixed length.
    buffer: Vec<u8>,
    n_bytes: usize,
    sink: W,
    error: Option<io::Error>,
}

/// Free space that has room for a [`Short`] after any `u8`, so that copying needs no check.
pub(super) type FreeSpace = [u8; 256 + 16];

/// At most 16 bytes: an opcode with its argument.
#[derive(Clone, Copy, Debug)]
pub(super) struct Short {
    pub(super) bytes: [u8; 16],
    pub(super) n_bytes: u8,
}

impl<W: Write> Out<W> {
    pub(super) fn new(sink: W) -> Self {
        Out { buffer: vec![0; FULL_BYTES + 4096], n_bytes: 0, sink, error: None }
    }

    /// Writes the buffer to the sink if it is full; returns false after an error.
    #[inline(always)]
    pub(super) fn spill(&mut self) -> bool {
        if self.n_bytes < FULL_BYTES {
            return true;
        }
        self.write_buffer();
        self.error.is_none()
    }

    fn write_buffer(&mut self) {
        if self.error.is_none() {
            self.error = self.sink.write_all(&self.buffer[..self.n_bytes]).err();
        }
        self.n_bytes = 0;
    }

    #[inline(always)]
    pub(super) fn short(&mut self, short: Short) {
        let end = self.n_bytes + 16;
        if end > self.buffer.len() {
            self.grow(end);
        }
        self.buffer[self.n_bytes..end].copy_from_slice(&short.bytes);
        self.n_bytes += usize::from(short.n_bytes);
    }

    /// Returns room for up to 256 bytes, if the buffer has it; [`Out::advance`] makes them part of the output.
    #[inline(always)]
    pub(super) fn room(&mut self) -> Option<&mut FreeSpace> {
        self.buffer.get_mut(self.n_bytes..)?.first_chunk_mut()
    }

    #[inline(always)]
    pub(super) fn advance(&mut self, n_bytes: u8) {
        self.n_bytes += usize::from(n_bytes);
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        let end = self.n_bytes + bytes.len();
        if end > self.buffer.len() {
            self.grow(end);
        }
        self.buffer[self.n_bytes..end].copy_from_slice(bytes);
        self.n_bytes = end;
    }

    #[cold]
    fn grow(&mut self, n_bytes: usize) {
        self.buffer.resize(n_bytes.next_power_of_two(), 0);
    }

    /// Returns the number of bytes in the buffer.
    pub(super) fn len(&self) -> usize {
        self.n_bytes
    }

    /// Removes and returns the bytes after the first `n_bytes` of the buffer.
    pub(super) fn take_from(&mut self, n_bytes: usize) -> Vec<u8> {
        let taken = self.buffer[n_bytes..self.n_bytes].to_vec();
        self.n_bytes = n_bytes;
        taken
    }

    /// Records an error for [`Out::finish`].
    pub(super) fn fail(&mut self, error: io::Error) {
        self.error.get_or_insert(error);
    }

    /// Writes the rest of the buffer; returns the first error.
    pub(super) fn finish(mut self) -> io::Result<()> {
        self.write_buffer();
        match self.error {
            Some(error) => Err(error),
            None => self.sink.flush(),
        }
    }

    #[inline(always)]
    pub(super) fn op(&mut self, op: u8) {
        self.short(Short::of(&[op]));
    }

    /// Writes an integer in the fewest bytes.
    #[inline(always)]
    pub(super) fn int(&mut self, int: i64) {
        self.short(Short::int(int));
    }

    /// Writes an integer that may need a 65th bit for its sign.
    #[inline(always)]
    pub(super) fn unsigned(&mut self, int: u64) {
        match i64::try_from(int) {
            Ok(int) => self.int(int),
            Err(_) => {
                self.bytes(&[opcode::LONG1, 9]);
                self.bytes(&int.to_le_bytes());
                self.op(0);
            }
        }
    }

    /// Writes an integer given as two's complement, least significant byte first.
    pub(super) fn big(&mut self, bytes: &[u8]) {
        match u8::try_from(bytes.len()) {
            Ok(n) => self.bytes(&[opcode::LONG1, n]),
            Err(_) => {
                self.op(opcode::LONG4);
                self.length(bytes.len());
            }
        }
        self.bytes(bytes);
    }

    pub(super) fn text(&mut self, text: &str) {
        match u8::try_from(text.len()) {
            Ok(n) => self.bytes(&[opcode::SHORT_BINUNICODE, n]),
            Err(_) => {
                self.op(opcode::BINUNICODE);
                self.length(text.len());
            }
        }
        self.bytes(text.as_bytes());
    }

    /// # Panics
    /// On a text of 4 GiB; no snapshot that was read or recorded has one.
    fn length(&mut self, n: usize) {
        let n = u32::try_from(n).expect("texts and integers stay below 4 GiB");
        self.bytes(&n.to_le_bytes());
    }

    #[inline(always)]
    pub(super) fn get(&mut self, id: u32) {
        self.short(Short::get(id));
    }

    pub(super) fn put(&mut self, id: u32) {
        self.short(Short::numbered(opcode::BINPUT, opcode::LONG_BINPUT, id));
    }
}

/// Appends bytes: serde-pickle writes through this.
impl<W: Write> Write for Out<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.bytes(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Short {
    /// Returns these bytes, at most 16.
    #[inline(always)]
    pub(super) fn of(bytes: &[u8]) -> Short {
        let mut all = [0; 16];
        all[..bytes.len()].copy_from_slice(bytes);
        Short { bytes: all, n_bytes: bytes.len() as u8 }
    }

    /// Concatenates parts; `None` beyond 16 bytes.
    pub(super) fn join(parts: &[Short]) -> Option<Short> {
        let bytes: Vec<u8> =
            parts.iter().flat_map(|part| &part.bytes[..usize::from(part.n_bytes)]).copied().collect();
        (bytes.len() <= 16).then(|| Short::of(&bytes))
    }

    #[inline(always)]
    pub(super) fn get(id: u32) -> Short {
        Short::numbered(opcode::BINGET, opcode::LONG_BINGET, id)
    }

    /// Copies the bytes to an offset; returns the offset after them. The sum of all copies must be at most 255.
    #[inline(always)]
    pub(super) fn copy_to(&self, room: &mut FreeSpace, at: u8) -> u8 {
        let from = usize::from(at);
        room[from..from + 16].copy_from_slice(&self.bytes);
        at.wrapping_add(self.n_bytes)
    }

    #[inline(always)]
    fn numbered(short: u8, long: u8, id: u32) -> Short {
        // Selected without a branch: which stacks have short numbers is unpredictable.
        let is_short = id <= 0xff;
        let op = if is_short { short } else { long };
        let bytes = (u128::from(op) | u128::from(id) << 8).to_le_bytes();
        Short { bytes, n_bytes: if is_short { 2 } else { 5 } }
    }

    /// Returns an integer with the opcode that takes the fewest bytes.
    #[inline(always)]
    pub(super) fn int(int: i64) -> Short {
        // The opcode is below the argument, so that every form is one store.
        let argument = u128::from(int.cast_unsigned());
        let (op, n_bytes) = match int {
            0..=0xff => (u128::from(opcode::BININT1) | argument << 8, 2),
            0x100..=0xffff => (u128::from(opcode::BININT2) | argument << 8, 3),
            -0x8000_0000..=0x7fff_ffff => (u128::from(opcode::BININT) | argument << 8, 5),
            _ => {
                let n_bytes = n_bytes(int);
                (u128::from(opcode::LONG1) | u128::from(n_bytes) << 8 | argument << 16, 2 + n_bytes)
            }
        };
        Short { bytes: op.to_le_bytes(), n_bytes }
    }
}

/// Returns the number of bytes of an integer in two's complement.
#[inline]
fn n_bytes(int: i64) -> u8 {
    let magnitude = if int < 0 { !int } else { int };
    let n_bits = 65 - magnitude.leading_zeros();
    n_bits.div_ceil(8) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_take_the_fewest_bytes() {
        let length = |int: i64| Short::int(int).n_bytes;
        assert_eq!([0, 255, 256, 65535, 65536, -1].map(length), [2, 2, 3, 3, 5, 5]);
        assert_eq!(
            [i64::from(i32::MAX), i64::from(i32::MIN), 1 << 31, -(1 << 31) - 1].map(length),
            [5, 5, 7, 7]
        );
        assert_eq!([(1 << 39) - 1, 1 << 39, i64::MAX, i64::MIN].map(length), [7, 8, 10, 10]);
    }
}
