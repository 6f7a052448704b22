//! A writer that counts its bytes, up to a limit.

#![forbid(unsafe_code)]

use std::io::{self, Write};

/// A writer that counts the bytes that it passes on.
#[derive(Debug)]
pub(crate) struct Counted<W> {
    sink: W,
    n_bytes: u64,
    most: Option<u64>,
    is_over: bool,
}

impl<W: Write> Counted<W> {
    /// Returns a writer that takes `most` bytes; `None` for any number.
    pub(crate) fn new(sink: W, most: Option<u64>) -> Counted<W> {
        Counted { sink, n_bytes: 0, most, is_over: false }
    }

    /// Returns whether there was more than the writer takes.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over
    }

    /// Returns how many bytes were written.
    pub(crate) fn n_bytes(&self) -> u64 {
        self.n_bytes
    }
}

impl<W: Write> Write for Counted<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.most.is_some_and(|most| self.n_bytes + bytes.len() as u64 > most) {
            self.is_over = true;
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let n = self.sink.write(bytes)?;
        self.n_bytes += n as u64;
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.sink.flush()
    }
}
