//! The output of a command: standard output, or memory for a question.

#![forbid(unsafe_code)]

use std::io::{self, BufWriter, Stdout, Write};

/// What a command prints to. One type for both places, so that every command is compiled once.
pub(crate) enum Printed {
    Out(BufWriter<Stdout>),
    Memory(Vec<u8>),
}

impl Printed {
    /// Returns standard output.
    pub(crate) fn out() -> Printed {
        Printed::Out(BufWriter::with_capacity(1 << 16, io::stdout()))
    }

    /// Returns what was printed to memory; of standard output, nothing.
    pub(crate) fn into_bytes(self) -> Vec<u8> {
        match self {
            Printed::Out(_) => Vec::new(),
            Printed::Memory(bytes) => bytes,
        }
    }
}

impl Write for Printed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Printed::Out(out) => out.write(bytes),
            Printed::Memory(memory) => memory.write(bytes),
        }
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Printed::Out(out) => out.write_all(bytes),
            Printed::Memory(memory) => memory.write_all(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Printed::Out(out) => out.flush(),
            Printed::Memory(_) => Ok(()),
        }
    }
}
