//! Values that stand in the bytes themselves: numbers, texts and raw bytes, never read beyond the end.

#![forbid(unsafe_code)]

use super::{
    node::{Item, TextId},
    parser::Machine,
};
use crate::{
    error::{Error, Result},
    pickle::opcode,
};

impl<'a> Machine<'a> {
    pub(super) fn protocol(&mut self, start: usize) -> Result<()> {
        let version = self.byte()?;
        if version > 5 {
            let what = format!("pickle protocol {version} is unknown; 0 to 5 are read");
            return Err(Error::malformed(start as u64, what));
        }
        self.findings.protocol(version, start);
        Ok(())
    }

    /// An integer of the given length, two's complement, least byte first.
    pub(super) fn long(&mut self, n_bytes: usize, start: usize) -> Result<()> {
        let from = self.pos;
        let bytes = self.take(n_bytes)?;
        let item = match long(bytes) {
            Some(int) => {
                self.findings.long(n_bytes, int, start);
                Item::Int(int)
            }
            None => {
                self.findings.big(n_bytes, start);
                Item::Big(self.nodes.span(from, from + n_bytes))
            }
        };
        self.stack.push(item);
        Ok(())
    }

    pub(super) fn text_int(&mut self, start: usize) -> Result<()> {
        let rest = &self.bytes[self.pos..];
        let bad = || Error::malformed(start as u64, "INT without a number of at most 64 bits");
        let n = rest.iter().take(32).position(|byte| *byte == b'\n').ok_or_else(bad)?;
        let item = match &rest[..n] {
            b"00" => Item::Bool(false),
            b"01" => Item::Bool(true),
            digits => {
                let text = std::str::from_utf8(digits).map_err(|_| bad())?;
                Item::Int(text.trim().parse().map_err(|_| bad())?)
            }
        };
        self.pos += n + 1;
        self.stack.push(item);
        Ok(())
    }

    pub(super) fn raw(&mut self, n_bytes: usize) -> Result<()> {
        let from = self.pos;
        self.take(n_bytes)?;
        let span = self.nodes.span(from, from + n_bytes);
        self.stack.push(Item::Bytes(span));
        Ok(())
    }

    pub(super) fn text_length(&mut self, op: u8) -> Result<usize> {
        match op {
            opcode::SHORT_BINUNICODE => Ok(usize::from(self.byte()?)),
            opcode::BINUNICODE => Ok(self.u32()? as usize),
            _ => {
                self.findings.opcode(opcode::BINUNICODE8, "BINUNICODE8", self.pos - 1);
                self.length()
            }
        }
    }

    /// A text that stands here; bytes that are no UTF-8 become U+FFFD, as in the viewer.
    pub(super) fn text(&mut self, n_bytes: usize, start: usize) -> Result<TextId> {
        let bytes = self.take(n_bytes)?;
        if let Some(id) = self.words.find(bytes) {
            return Ok(id);
        }
        let text = String::from_utf8_lossy(bytes);
        self.findings.text(bytes, &text, start);
        Ok(self.words.add(bytes, &text))
    }

    pub(super) fn byte(&mut self) -> Result<u8> {
        let byte = *self.bytes.get(self.pos).ok_or_else(|| self.ends_early())?;
        self.pos += 1;
        Ok(byte)
    }

    pub(super) fn u32(&mut self) -> Result<u32> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    pub(super) fn length(&mut self) -> Result<usize> {
        let length = u64::from_le_bytes(self.array()?);
        usize::try_from(length).map_err(|_| self.ends_early())
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

    #[cold]
    pub(super) fn ends_early(&self) -> Error {
        let what = format!(
            "the file ends after {} bytes in the middle of a value; it was cut off, perhaps while being written",
            self.bytes.len()
        );
        Error::malformed(self.pos as u64, what)
    }
}

/// The integer in these bytes, if it fits 64 bits.
#[inline]
pub(super) fn long(bytes: &[u8]) -> Option<i64> {
    let Some((last, _)) = bytes.split_last() else { return Some(0) };
    let sign = if last & 0x80 == 0 { 0 } else { 0xff };
    if bytes.len() > 8 {
        let (low, high) = bytes.split_at(8);
        let fits = high.iter().all(|byte| *byte == sign) && (low[7] & 0x80 == sign & 0x80);
        return fits.then(|| i64::from_le_bytes(low.try_into().unwrap_or_default()));
    }
    let mut all = [sign; 8];
    all[..bytes.len()].copy_from_slice(bytes);
    Some(i64::from_le_bytes(all))
}

#[cfg(test)]
mod tests {
    use super::long;

    #[test]
    fn longs_are_twos_complement_of_any_length() {
        let minus_one_of_ten = [0xff; 10];
        assert_eq!(long(&[]), Some(0));
        assert_eq!(long(&[0xff]), Some(-1));
        assert_eq!(long(&[0xff, 0]), Some(255));
        assert_eq!(long(&minus_one_of_ten), Some(-1));
        assert_eq!(long(&i64::MIN.to_le_bytes()), Some(i64::MIN));
        assert_eq!(long(&[0, 0, 0, 0, 0, 0, 0, 0x80, 0]), None, "2^63 needs 65 bits");
    }
}
