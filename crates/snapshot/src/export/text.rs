//! Buffered text output that formats numbers without `std::fmt`.

use std::{
    io::{self, Write},
    rc::Rc,
};

/// The size in bytes at which the buffer is written.
const FULL_BYTES: usize = 64 * 1024;

/// A buffer in front of a writer. The first error is kept; [`Out::finish`] returns it.
pub(super) struct Out<'a, W> {
    buffer: Vec<u8>,
    sink: &'a mut W,
    error: Option<io::Error>,
}

impl<'a, W: Write> Out<'a, W> {
    pub(super) fn new(sink: &'a mut W) -> Self {
        Out { buffer: Vec::with_capacity(FULL_BYTES + 4096), sink, error: None }
    }

    #[inline]
    pub(super) fn text(&mut self, text: &str) -> &mut Self {
        if text.len() > FULL_BYTES {
            return self.long(text);
        }
        self.buffer.extend_from_slice(text.as_bytes());
        self
    }

    /// Writes a text that the buffer does not hold.
    #[cold]
    fn long(&mut self, text: &str) -> &mut Self {
        self.write_buffer();
        if self.error.is_none() {
            self.error = self.sink.write_all(text.as_bytes()).err();
        }
        self
    }

    #[inline]
    pub(super) fn int(&mut self, int: impl itoa::Integer) -> &mut Self {
        self.text(itoa::Buffer::new().format(int))
    }

    /// Adds a number in the form `{:#x}`.
    pub(super) fn hex(&mut self, int: u64) -> &mut Self {
        let n_digits = (64 - int.leading_zeros()).div_ceil(4).max(1);
        self.text("0x");
        let digit = |nth: u32| b"0123456789abcdef"[(int >> (4 * nth) & 0xf) as usize];
        self.buffer.extend((0..n_digits).rev().map(digit));
        self
    }

    /// Writes the buffer if it is full; returns false after an error.
    #[inline]
    pub(super) fn spill(&mut self) -> bool {
        if self.buffer.len() >= FULL_BYTES {
            self.write_buffer();
        }
        self.error.is_none()
    }

    fn write_buffer(&mut self) {
        if self.error.is_none() {
            self.error = self.sink.write_all(&self.buffer).err();
        }
        self.buffer.clear();
    }

    /// Keeps an error, unless there is an earlier one.
    pub(super) fn fail(&mut self, error: io::Error) {
        self.error.get_or_insert(error);
    }

    /// Writes the rest and returns the first error.
    pub(super) fn finish(mut self) -> io::Result<()> {
        self.write_buffer();
        self.error.map_or(Ok(()), Err)
    }
}

/// Texts that are created once and used many times, by the numbers of stacks or shapes.
///
/// They have a limit in bytes together: a file can have many records with one long text, whose texts all together would
/// not fit in memory. Beyond it a text is made again for each use.
#[derive(Debug)]
pub(super) struct Made<T: ?Sized = str> {
    made: Vec<Option<Rc<T>>>,
    n_left: usize,
}

/// The limit of [`Made`] in bytes.
const MADE_BYTES: usize = 24 << 20;

/// The most bytes of one text of [`Made`].
pub(super) const MOST_BYTES: usize = 256 << 10;

impl<T: ?Sized> Made<T> {
    pub(super) fn new(n: usize) -> Made<T> {
        Made { made: vec![None; n], n_left: MADE_BYTES }
    }

    #[inline]
    pub(super) fn get(&self, number: usize) -> Option<Rc<T>> {
        self.made[number].clone()
    }

    /// Returns whether a text of this size is kept.
    pub(super) fn has_room(&self, n_bytes: usize) -> bool {
        n_bytes <= MOST_BYTES.min(self.n_left)
    }

    /// Keeps a text of this size if there is room.
    pub(super) fn keep_sized(&mut self, number: usize, text: Rc<T>, n_bytes: usize) -> Rc<T> {
        if self.has_room(n_bytes) {
            self.n_left -= n_bytes;
            self.made[number] = Some(text.clone());
        }
        text
    }
}

impl Made {
    /// Keeps a text if there is room.
    pub(super) fn keep(&mut self, number: usize, text: String) -> Rc<str> {
        let n_bytes = text.len();
        self.keep_sized(number, text.into(), n_bytes)
    }
}

/// A text as a JSON string, in quotes.
pub(super) fn quoted(text: &str) -> String {
    serde_json::to_string(text).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_as_the_standard_library_writes_them() {
        for int in [0, 1, 15, 16, 0xff, 0x100, 0x7f12_3456_789a, u64::MAX] {
            let mut bytes = Vec::new();
            let mut out = Out::new(&mut bytes);
            out.hex(int).text(" ").int(int).text(" ").int(int.cast_signed());
            out.finish().unwrap();
            assert_eq!(String::from_utf8(bytes).unwrap(), format!("{int:#x} {int} {}", int.cast_signed()));
        }
    }

    #[test]
    fn the_first_error_is_told_at_the_end() {
        let mut small = [0u8; 10];
        let mut sink = &mut small[..];
        let mut out = Out::new(&mut sink);
        assert!(out.text(&"x".repeat(FULL_BYTES - 1)).spill());
        assert!(!out.text("y").spill());
        assert_eq!(out.finish().unwrap_err().kind(), io::ErrorKind::WriteZero);
    }
}
