//! The bytes of a file and the offset of the next one; reads beyond the end are errors.

#![forbid(unsafe_code)]

use super::cursor::Cursor;
use crate::words::{Error, Result};

/// A file's bytes, read from front to back.
#[derive(Debug)]
pub(super) struct Input<'a> {
    bytes: &'a [u8],
    pos: usize,
}

impl<'a> Input<'a> {
    /// Starts at the first byte.
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Input { bytes, pos: 0 }
    }

    /// Returns all bytes of the file.
    pub(super) fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Returns the offset of the next byte.
    pub(super) fn pos(&self) -> usize {
        self.pos
    }

    /// Continues at another offset, at most the length of the file.
    pub(super) fn move_to(&mut self, pos: usize) {
        self.pos = pos;
    }

    /// Returns a cursor at the next byte; moving it does not move this.
    pub(super) fn cursor(&self) -> Cursor<'a> {
        Cursor { bytes: self.bytes, pos: self.pos }
    }

    pub(super) fn byte(&mut self) -> Result<u8> {
        let byte = *self.bytes.get(self.pos).ok_or_else(|| self.ends_early())?;
        self.pos += 1;
        Ok(byte)
    }

    pub(super) fn u32(&mut self) -> Result<u32> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    /// Reads a length of eight bytes.
    ///
    /// # Errors
    /// If it has no place in the four bytes with which texts are written.
    pub(super) fn length(&mut self) -> Result<usize> {
        let (pos, length) = (self.pos, u64::from_le_bytes(self.array()?));
        match u32::try_from(length) {
            Ok(length) => Ok(length as usize),
            Err(_) if length > (self.bytes.len() - self.pos) as u64 => Err(self.ends_early()),
            Err(_) => {
                Err(Error::malformed(pos as u64, "a text or bytes of 4 GiB or more; no snapshot has one"))
            }
        }
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let array = *self.bytes[self.pos..].first_chunk().ok_or_else(|| self.ends_early())?;
        self.pos += N;
        Ok(array)
    }

    pub(super) fn take(&mut self, n_bytes: usize) -> Result<&'a [u8]> {
        let bytes = self.bytes[self.pos..].get(..n_bytes).ok_or_else(|| self.ends_early())?;
        self.pos += n_bytes;
        Ok(bytes)
    }

    /// Reads up to a line feed and returns what precedes it, at most 31 bytes.
    pub(super) fn short_line(&mut self) -> Option<&'a [u8]> {
        let rest = &self.bytes[self.pos..];
        let n_bytes = rest.iter().take(32).position(|byte| *byte == b'\n')?;
        self.pos += n_bytes + 1;
        Some(&rest[..n_bytes])
    }

    #[cold]
    fn ends_early(&self) -> Error {
        let what = format!(
            "the file ends after {} bytes in the middle of a value; it was cut off, perhaps while being written",
            self.bytes.len()
        );
        Error::malformed(self.pos as u64, what)
    }
}
