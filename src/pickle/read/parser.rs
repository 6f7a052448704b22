//! The stack machine: a file's bytes become items and containers, whatever they mean.
//!
//! It runs opcodes of data alone and refuses the rest. A container may not
//! grow once another holds it: no pickler does that save for an object that
//! holds itself, and it makes depth and weight known when they are needed.
//! Depth is bounded, so that what is made of the items may recurse.

#![forbid(unsafe_code)]

use super::{
    assembler::Made,
    entry_decoder::Road,
    findings::Findings,
    foreign,
    memo::Memo,
    node::{Item, Kind, NodeId, Nodes, Words},
};
use crate::{
    error::{Error, Result},
    finding::Severity,
    pickle::{file::Bytes, opcode},
    snapshot::Snapshot,
};

/// How deep containers may nest; serde_json reads 128 levels at most, and a snapshot has 8.
const MAX_DEPTH: u8 = 100;

/// The largest integer that JavaScript holds exactly.
pub(super) const MAX_SAFE: i64 = 1 << 53;

/// Why reading stopped.
#[derive(Debug)]
pub(super) enum Halt {
    /// The file is no snapshot.
    Malformed(Error),
    /// Something stands where the fast road does not expect it; the general one will tell.
    Unusual,
}

/// What a part of reading gives.
pub(super) type Step<T> = std::result::Result<T, Halt>;

impl From<Error> for Halt {
    fn from(error: Error) -> Halt {
        Halt::Malformed(error)
    }
}

/// A file being read.
#[derive(Debug)]
pub(super) struct Machine<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) pos: usize,
    pub(super) stack: Vec<Item>,
    marks: Vec<usize>,
    pub(super) memo: Memo,
    pub(super) nodes: Nodes,
    pub(super) words: Words<'a>,
    pub(super) findings: Findings,
    /// Where frames, stacks and shapes go while the file is read.
    pub(super) snapshot: Snapshot,
    /// Whether trace entries take the fast road.
    is_fast: bool,
    /// Where the pages that were read may be given back next, and whose they are.
    pub(super) rest: (usize, Option<&'a Bytes>),
    pub(super) road: Road<'a>,
    pub(super) made: Made,
    pub(super) memoizes: bool,
    pub(super) puts: bool,
}

impl<'a> Machine<'a> {
    /// A machine at the first byte.
    pub(super) fn new(bytes: &'a [u8], is_fast: bool) -> Self {
        Machine {
            bytes,
            pos: 0,
            stack: Vec::new(),
            marks: Vec::new(),
            memo: Memo::default(),
            nodes: Nodes::default(),
            words: Words::default(),
            findings: Findings::default(),
            snapshot: Snapshot::without_keys(),
            is_fast,
            rest: (usize::MAX, None),
            road: Road::default(),
            made: Made::default(),
            memoizes: false,
            puts: false,
        }
    }

    /// Runs to STOP and gives the value on top of the stack.
    pub(super) fn run(&mut self) -> Step<Item> {
        loop {
            let start = self.pos;
            if start >= self.rest.0 {
                self.rest_at(start);
            }
            let op = self.byte()?;
            if op == opcode::STOP {
                return Ok(self.result(start)?);
            }
            self.step(op, start)?;
        }
    }

    fn result(&mut self, start: usize) -> Result<Item> {
        let top = self.pop(start)?;
        let n_left = self.stack.len();
        if n_left > 0 {
            let what = format!("{n_left} values lie below the one that the file ends with");
            self.findings.at_byte(3, Severity::Error, start, what);
        }
        Ok(top)
    }

    fn step(&mut self, op: u8, start: usize) -> Step<()> {
        match op {
            opcode::EMPTY_DICT => return self.dict_begins(start),
            opcode::BINGET => {
                let index = self.byte()?;
                self.fetch(u32::from(index), start)?;
            }
            opcode::LONG_BINGET => {
                let index = self.u32()?;
                self.fetch(index, start)?;
            }
            opcode::BININT1 => {
                let int = self.byte()?;
                self.stack.push(Item::Int(i64::from(int)));
            }
            opcode::BININT2 => {
                let int = u16::from_le_bytes(self.array()?);
                self.stack.push(Item::Int(i64::from(int)));
            }
            opcode::BININT => {
                let int = i32::from_le_bytes(self.array()?);
                self.stack.push(Item::Int(i64::from(int)));
            }
            opcode::LONG1 => {
                let n_bytes = usize::from(self.byte()?);
                self.long(n_bytes, start)?;
            }
            opcode::MEMOIZE => {
                self.memoizes = true;
                self.put(self.memo.next(), start)?;
            }
            opcode::BINPUT => {
                self.puts = true;
                let index = self.byte()?;
                self.put(u32::from(index), start)?;
            }
            opcode::LONG_BINPUT => {
                self.puts = true;
                let index = self.u32()?;
                self.put(index, start)?;
            }
            opcode::MARK => self.marks.push(self.stack.len()),
            opcode::SHORT_BINUNICODE | opcode::BINUNICODE | opcode::BINUNICODE8 => {
                let n_bytes = self.text_length(op)?;
                let id = self.text(n_bytes, start)?;
                self.stack.push(Item::Text(id));
            }
            opcode::NONE => self.stack.push(Item::None),
            opcode::NEWTRUE => self.stack.push(Item::Bool(true)),
            opcode::NEWFALSE => self.stack.push(Item::Bool(false)),
            opcode::BINFLOAT => {
                let bits = u64::from_be_bytes(self.array()?);
                self.stack.push(Item::Float(bits));
            }
            opcode::FRAME => {
                self.array::<8>()?;
            }
            opcode::PROTO => self.protocol(start)?,
            _ => return self.container_step(op, start),
        }
        Ok(())
    }

    fn container_step(&mut self, op: u8, start: usize) -> Step<()> {
        match op {
            opcode::EMPTY_LIST if self.is_fast && self.known_stack() => {}
            opcode::EMPTY_LIST => self.push_empty(Kind::List, start),
            opcode::EMPTY_TUPLE => self.push_empty(Kind::Tuple, start),
            opcode::TUPLE1 | opcode::TUPLE2 | opcode::TUPLE3 => {
                let n = usize::from(op - opcode::TUPLE1) + 1;
                let from = self.stack.len().checked_sub(n).filter(|from| *from >= self.floor());
                self.gather(Kind::Tuple, from.ok_or_else(|| too_few(start))?, start)?;
            }
            opcode::TUPLE | opcode::LIST | opcode::DICT => {
                let from = self.pop_mark(start)?;
                let kind = match op {
                    opcode::TUPLE => Kind::Tuple,
                    opcode::LIST => Kind::List,
                    _ => Kind::Dict,
                };
                self.gather(kind, from, start)?;
            }
            opcode::APPEND => return self.extend(Kind::List, 1, start),
            opcode::SETITEM => return self.extend(Kind::Dict, 2, start),
            opcode::APPENDS | opcode::SETITEMS => {
                let n = self.stack.len() - self.pop_mark(start)?;
                if op == opcode::APPENDS {
                    self.findings.batch(n, start);
                }
                let kind = if op == opcode::APPENDS { Kind::List } else { Kind::Dict };
                return self.extend(kind, n, start);
            }
            _ => self.rare_step(op, start)?,
        }
        Ok(())
    }

    /// Opcodes of data that the viewer does not take, and those that are refused.
    fn rare_step(&mut self, op: u8, start: usize) -> Result<()> {
        let Some(name) = opcode::unknown_to_viewer(op) else {
            return Err(Error::malformed(start as u64, opcode::refusal(op) + foreign::hint(self.bytes)));
        };
        self.findings.opcode(op, name, start);
        match op {
            opcode::INT => return self.text_int(start),
            opcode::LONG4 => {
                let n_bytes = self.u32()? as usize;
                return self.long(n_bytes, start);
            }
            opcode::SHORT_BINBYTES => {
                let n_bytes = usize::from(self.byte()?);
                self.raw(n_bytes)?;
            }
            opcode::BINBYTES => {
                let n_bytes = self.u32()? as usize;
                self.raw(n_bytes)?;
            }
            _ => {
                let n_bytes = self.length()?;
                self.raw(n_bytes)?;
            }
        }
        Ok(())
    }

    fn dict_begins(&mut self, start: usize) -> Step<()> {
        if self.is_fast && self.entry()? {
            return Ok(());
        }
        self.push_empty(Kind::Dict, start);
        Ok(())
    }

    fn push_empty(&mut self, kind: Kind, start: usize) {
        let id = self.nodes.add(kind, start);
        self.stack.push(Item::Node(id));
    }

    /// The lowest place of the stack that an opcode without a mark may touch.
    fn floor(&self) -> usize {
        self.marks.last().copied().unwrap_or(0)
    }

    fn pop(&mut self, start: usize) -> Result<Item> {
        if self.stack.len() <= self.floor() {
            return Err(too_few(start));
        }
        self.stack.pop().ok_or_else(|| too_few(start))
    }

    fn pop_mark(&mut self, start: usize) -> Result<usize> {
        self.marks
            .pop()
            .ok_or_else(|| Error::malformed(start as u64, "the mark that this opcode needs is missing"))
    }

    fn fetch(&mut self, index: u32, start: usize) -> Result<()> {
        match self.memo.get(index) {
            Item::Absent => {
                Err(Error::malformed(start as u64, format!("nothing was put aside as number {index}")))
            }
            item => {
                self.stack.push(item);
                Ok(())
            }
        }
    }

    fn put(&mut self, index: u32, start: usize) -> Result<()> {
        let top = self.stack.len().checked_sub(1).filter(|top| *top >= self.floor());
        let top = top.ok_or_else(|| too_few(start))?;
        if self.memoizes && self.puts {
            self.findings.mixed_memo(start);
        }
        if self.memo.put(index, self.stack[top]) {
            // What lists of memo numbers stand for has changed.
            self.road.forget_numbers();
        }
        Ok(())
    }

    /// Moves the topmost items into a new container.
    fn gather(&mut self, kind: Kind, from: usize, start: usize) -> Step<()> {
        if let (Kind::Tuple, [Item::Int(a), Item::Int(b)]) = (kind, &self.stack[from..]) {
            let pair = self.nodes.pair((*a, *b));
            self.stack.truncate(from);
            self.stack.push(pair);
            return Ok(());
        }
        let n = self.stack.len() - from;
        let id = self.nodes.add(kind, start);
        self.stack.insert(from, Item::Node(id));
        self.extend(kind, n, start)
    }

    /// Moves the topmost `n` items into the container below them.
    fn extend(&mut self, kind: Kind, n: usize, start: usize) -> Step<()> {
        let from = self.stack.len().checked_sub(n).filter(|from| *from > self.floor());
        let from = from.ok_or_else(|| too_few(start))?;
        let id = match self.stack[from - 1] {
            Item::Node(id) if self.nodes.get(id).kind == kind => id,
            Item::Entry(_) | Item::Stack(_) => return Err(Halt::Unusual),
            _ => return Err(Error::malformed(start as u64, "nothing here can take what is added").into()),
        };
        if kind == Kind::Dict {
            self.check_keys(from, start)?;
        }
        let (mut weight, mut depth) = (self.nodes.get(id).weight, self.nodes.get(id).depth);
        if self.nodes.get(id).is_frozen && n > 0 {
            return Err(grows_after_use(start).into());
        }
        for at in from..self.stack.len() {
            let (w, d) = self.hold(self.stack[at], id, start)?;
            weight = weight.saturating_add(w);
            depth = depth.max(d + 1);
        }
        if depth > MAX_DEPTH {
            let what = format!("containers nest more than {MAX_DEPTH} deep; a snapshot has 8 levels");
            return Err(Error::malformed(start as u64, what).into());
        }
        let node = self.nodes.get_mut(id);
        (node.weight, node.depth) = (weight, depth);
        let items = &self.stack[from..];
        if kind == Kind::List && items.iter().any(|item| matches!(item, Item::Entry(_))) {
            node.add_entries(items);
        } else {
            node.items.extend_from_slice(items);
        }
        self.stack.truncate(from);
        if kind == Kind::Dict && self.is_fast {
            self.entry_ends(id);
        }
        Ok(())
    }

    /// Freezes what goes into a container; gives its weight and depth.
    fn hold(&mut self, item: Item, holder: NodeId, start: usize) -> Result<(u32, u8)> {
        match item {
            Item::Node(id) if id == holder => {
                Err(Error::malformed(start as u64, "a container holds itself; no snapshot does"))
            }
            Item::Node(id) => {
                let node = self.nodes.get_mut(id);
                node.is_frozen = true;
                Ok((node.weight, node.depth))
            }
            Item::Entry(_) | Item::Entries(..) | Item::Stack(_) => Ok((1, 4)),
            _ => Ok((1, 0)),
        }
    }

    fn check_keys(&mut self, from: usize, start: usize) -> Result<()> {
        let n = self.stack.len() - from;
        if n % 2 == 1 {
            return Err(Error::malformed(start as u64, "a dict's last key has no value"));
        }
        for at in (from..self.stack.len()).step_by(2) {
            match self.stack[at] {
                Item::Text(id) => self.findings.key(self.words.get(id), start),
                Item::Node(id) if self.nodes.get(id).kind == Kind::Tuple => self.findings.odd_key(start),
                Item::Node(_) | Item::Entry(_) | Item::Stack(_) => {
                    return Err(Error::malformed(start as u64, "a list or a dict is the key of a dict"));
                }
                _ => self.findings.odd_key(start),
            }
        }
        Ok(())
    }
}

#[cold]
fn too_few(start: usize) -> Error {
    Error::malformed(start as u64, "the values that this opcode needs are missing")
}

#[cold]
fn grows_after_use(start: usize) -> Error {
    let what =
        "a container grows after another took it, as only one that holds itself does; no snapshot has any";
    Error::malformed(start as u64, what)
}
