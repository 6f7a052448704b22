//! A writer that counts its bytes.

#![forbid(unsafe_code)]

use std::io::{self, Write};

/// A writer that counts the bytes that it passes on.
#[derive(Debug)]
pub(crate) struct Counted<W> {
    sink: W,
    n_bytes: u64,
}

impl<W: Write> Counted<W> {
    pub(crate) fn new(sink: W) -> Counted<W> {
        Counted { sink, n_bytes: 0 }
    }

    /// Returns how many bytes were written.
    pub(crate) fn n_bytes(&self) -> u64 {
        self.n_bytes
    }
}

impl<W: Write> Write for Counted<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let n = self.sink.write(bytes)?;
        self.n_bytes += n as u64;
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.sink.flush()
    }
}
