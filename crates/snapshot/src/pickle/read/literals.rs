//! Reads values that are written out in the bytes: integers, texts and raw bytes.

#![forbid(unsafe_code)]

use super::{
    findings::Findings,
    foreign,
    input::Input,
    integer::long,
    node::{Item, TextId},
    nodes::Nodes,
    words::Words,
};
use crate::{
    pickle::opcode,
    words::{Error, Result},
};

/// Reads a value after its opcode, whose byte is at `start`.
pub(super) struct Literals<'p, 'a> {
    pub(super) input: &'p mut Input<'a>,
    pub(super) nodes: &'p mut Nodes,
    pub(super) words: &'p mut Words<'a>,
    pub(super) findings: &'p mut Findings,
}

impl Literals<'_, '_> {
    /// Reads a value that is written out in the bytes; `None` if the opcode is another one.
    pub(super) fn common(&mut self, op: u8, start: usize) -> Result<Option<Item>> {
        Ok(Some(match op {
            opcode::BININT1 => Item::Int(i32::from(self.input.byte()?)),
            opcode::BININT2 => Item::Int(i32::from(u16::from_le_bytes(self.input.array()?))),
            opcode::BININT => Item::Int(i32::from_le_bytes(self.input.array()?)),
            opcode::LONG1 => {
                let n_bytes = usize::from(self.input.byte()?);
                self.long(n_bytes, start)?
            }
            opcode::SHORT_BINUNICODE | opcode::BINUNICODE | opcode::BINUNICODE8 => {
                Item::Text(self.text(op, start)?)
            }
            opcode::NONE => Item::None,
            opcode::NEWTRUE => Item::Bool(true),
            opcode::NEWFALSE => Item::Bool(false),
            opcode::BINFLOAT => self.nodes.add_float(u64::from_be_bytes(self.input.array()?)),
            _ => return Ok(None),
        }))
    }

    /// Reads a value whose opcode the viewer does not support; rejects all other opcodes.
    pub(super) fn rare(&mut self, op: u8, start: usize) -> Result<Item> {
        let Some(name) = opcode::unknown_to_viewer(op) else {
            let what = opcode::refusal(op) + foreign::hint(self.input.bytes());
            return Err(Error::malformed(start as u64, what));
        };
        self.findings.opcode(op, name, start);
        match op {
            opcode::INT => self.text_int(start),
            opcode::LONG4 => {
                let n_bytes = self.input.u32()? as usize;
                self.long(n_bytes, start)
            }
            opcode::SHORT_BINBYTES => {
                let n_bytes = usize::from(self.input.byte()?);
                self.raw(n_bytes)
            }
            opcode::BINBYTES => {
                let n_bytes = self.input.u32()? as usize;
                self.raw(n_bytes)
            }
            _ => {
                let n_bytes = self.input.length()?;
                self.raw(n_bytes)
            }
        }
    }

    /// Reads an integer of `n_bytes`, two's complement, least significant byte first.
    fn long(&mut self, n_bytes: usize, start: usize) -> Result<Item> {
        let from = self.input.pos();
        let bytes = self.input.take(n_bytes)?;
        Ok(match long(bytes) {
            Some(int) => {
                self.findings.long(n_bytes, int, start);
                self.nodes.add_int(int)
            }
            None => {
                self.findings.big(bytes, start);
                Item::Big(self.nodes.add_span(from, from + n_bytes))
            }
        })
    }

    /// Reads an integer in digits, or `00` and `01`, which are bools.
    fn text_int(&mut self, start: usize) -> Result<Item> {
        let bad = || Error::malformed(start as u64, "INT without a number of at most 64 bits");
        Ok(match self.input.short_line().ok_or_else(bad)? {
            b"00" => Item::Bool(false),
            b"01" => Item::Bool(true),
            digits => {
                let text = std::str::from_utf8(digits).map_err(|_| bad())?;
                self.nodes.add_int(text.trim().parse().map_err(|_| bad())?)
            }
        })
    }

    fn raw(&mut self, n_bytes: usize) -> Result<Item> {
        let from = self.input.pos();
        self.input.take(n_bytes)?;
        Ok(Item::Bytes(self.nodes.add_span(from, from + n_bytes)))
    }

    fn text_length(&mut self, op: u8) -> Result<usize> {
        match op {
            opcode::SHORT_BINUNICODE => Ok(usize::from(self.input.byte()?)),
            opcode::BINUNICODE => Ok(self.input.u32()? as usize),
            _ => {
                self.findings.opcode(opcode::BINUNICODE8, "BINUNICODE8", self.input.pos() - 1);
                self.input.length()
            }
        }
    }

    /// Reads a text with the length that this opcode has; bytes that are not UTF-8 become U+FFFD, as in the viewer.
    pub(super) fn text(&mut self, op: u8, start: usize) -> Result<TextId> {
        let n_bytes = self.text_length(op)?;
        let bytes = self.input.take(n_bytes)?;
        if let Some(id) = self.words.find(bytes) {
            return Ok(id);
        }
        let text = String::from_utf8_lossy(bytes);
        // Each byte that is not UTF-8 takes three.
        if u32::try_from(text.len()).is_err() {
            return Err(Error::malformed(start as u64, "a text of 4 GiB or more; no snapshot has one"));
        }
        self.findings.text(bytes, &text, start);
        Ok(self.words.add(bytes, &text))
    }
}
