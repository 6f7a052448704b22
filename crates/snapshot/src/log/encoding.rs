//! Decodes a log: UTF-8, or UTF-16, in which PowerShell writes a program's output.

use std::borrow::Cow;

/// Decodes a log in UTF-16, piece by piece.
#[derive(Debug)]
pub(super) struct Utf16 {
    is_big_endian: bool,
    /// The first byte of a unit whose second was not read yet.
    half: Option<u8>,
    /// The first unit of a pair.
    first: Option<u16>,
}

impl Utf16 {
    /// Returns a decoder if these first bytes are UTF-16: a byte order mark, or two ASCII characters.
    pub(super) fn of(head: &[u8]) -> Option<Utf16> {
        let is_big_endian = match *head {
            [0xff, 0xfe, ..] => false,
            [0xfe, 0xff, ..] => true,
            [first, 0, second, 0, ..] if first != 0 && second != 0 => false,
            [0, first, 0, second, ..] if first != 0 && second != 0 => true,
            _ => return None,
        };
        Some(Utf16 { is_big_endian, half: None, first: None })
    }

    /// Returns the next bytes in UTF-8.
    pub(super) fn decode(&mut self, piece: &[u8]) -> Vec<u8> {
        let mut text = String::with_capacity(piece.len());
        for byte in piece {
            let Some(half) = self.half.take() else {
                self.half = Some(*byte);
                continue;
            };
            let unit = match self.is_big_endian {
                true => u16::from_be_bytes([half, *byte]),
                false => u16::from_le_bytes([half, *byte]),
            };
            match self.first.take() {
                None if (0xd800..0xdc00).contains(&unit) => self.first = Some(unit),
                first => text.extend(
                    char::decode_utf16(first.into_iter().chain([unit]))
                        .map(|c| c.unwrap_or(char::REPLACEMENT_CHARACTER))
                        .filter(|c| *c != '\u{feff}'),
                ),
            }
        }
        text.into_bytes()
    }
}

/// Returns the first bytes of a log in UTF-8.
#[must_use]
pub fn utf8(head: &[u8]) -> Cow<'_, [u8]> {
    Utf16::of(head).map_or(Cow::Borrowed(head), |mut utf16| Cow::Owned(utf16.decode(head)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn utf_16_of_both_orders_is_decoded_in_pieces_of_any_size() {
        let text = "1.00 GiB — 🔥\r\n";
        let units = || "\u{feff}".encode_utf16().chain(text.encode_utf16());
        let little: Vec<u8> = units().flat_map(u16::to_le_bytes).collect();
        let big: Vec<u8> = units().flat_map(u16::to_be_bytes).collect();
        for bytes in [&little[..], &big, &little[2..], &big[2..]] {
            for n in 1..8 {
                let mut utf16 = Utf16::of(bytes).unwrap();
                let decoded: Vec<u8> = bytes.chunks(n).flat_map(|piece| utf16.decode(piece)).collect();
                assert_eq!(String::from_utf8(decoded).unwrap(), text, "{n}");
            }
        }
        assert_eq!(&*utf8(b"plain"), b"plain");
        assert_eq!(&*utf8(&little), text.as_bytes());
    }
}
