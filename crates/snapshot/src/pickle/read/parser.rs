//! The parser: runs the opcodes of a pickle, which turns bytes into items and containers.
//!
//! It runs opcodes that create plain data and rejects all others. A container may not grow once another one contains
//! it: picklers only do that for an object that contains itself, and it makes depth and weight known when they are
//! needed. Depth is bounded, so what reads the containers may recurse.

#![forbid(unsafe_code)]

use super::{
    cursor::Cursor,
    failure::{Attempt, Failure},
    findings::Findings,
    input::Input,
    literals::Literals,
    memo::Memo,
    node::{Item, Kind, MAX_VALUES_BYTES, NodeId},
    nodes::{InMemo, Nodes},
    operand_stack::OperandStack,
    words::Words,
};
use crate::{
    pickle::opcode,
    words::{Error, Result, Rule, Severity},
};

/// The memory in bytes that the values of any file may take.
const FREE_BYTES: u64 = 24 << 20;

/// The memory in bytes that they may take in addition, for each two bytes of the file: 7.5 for one. Files of recorders
/// need 2 to 4, and 7 if most of a file's bytes are in the blocks of one segment, as with a heap of small blocks.
const BYTES_OF_TWO: u64 = 15;

/// Returns the memory in bytes that the values of a file of this length may take.
fn most_bytes(n_bytes: u64) -> u64 {
    (FREE_BYTES + BYTES_OF_TWO * n_bytes / 2).min(MAX_VALUES_BYTES)
}

/// The memory of more items than this is checked before they are copied.
const MANY: usize = 1 << 12;

/// What an opcode changed, as far as readers of entries must know.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Effect {
    None,
    /// A dictionary received keys.
    DictGrew(NodeId),
    /// A list received elements.
    ListGrew(NodeId),
    /// A number of the memo was given a second time.
    NumberReassigned,
}

/// The state of a pickle's stack machine.
#[derive(Debug)]
pub(super) struct Parser<'a> {
    pub(super) input: Input<'a>,
    pub(super) operands: OperandStack,
    pub(super) memo: Memo,
    pub(super) nodes: Nodes,
    pub(super) words: Words<'a>,
    pub(super) findings: Findings,
    /// Whether the file had MEMOIZE.
    memoizes: bool,
    /// Whether the file had BINPUT or LONG_BINPUT.
    puts: bool,
}

impl<'a> Parser<'a> {
    /// Starts at the first byte.
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Parser {
            input: Input::new(bytes),
            operands: OperandStack::default(),
            memo: Memo::default(),
            nodes: Nodes::default(),
            words: Words::default(),
            findings: Findings::default(),
            memoizes: false,
            puts: false,
        }
    }

    /// Compares its memory, and more that was made of it, with the length of the file: an opcode of one byte can
    /// make a container.
    ///
    /// # Errors
    /// If it is far more than recorders' files need.
    pub(super) fn check_memory(&self, n_more_bytes: usize, pos: usize) -> Result<()> {
        let Parser { operands, memo, nodes, words, .. } = self;
        let n_bytes = operands.n_bytes() + memo.n_bytes() + nodes.n_bytes() + words.n_bytes() + n_more_bytes;
        let most_bytes = most_bytes(self.input.bytes().len() as u64);
        if n_bytes as u64 > most_bytes {
            let what = format!(
                "the values up to here take {} MB of memory, far more than a snapshot of this length needs ({} MB at \
                 most); if it is one, convert it to JSON, which is read one entry at a time",
                n_bytes / 1_000_000,
                most_bytes / 1_000_000
            );
            return Err(Error::malformed(pos as u64, what));
        }
        Ok(())
    }

    /// Whether the file numbers what it memoizes (BINPUT, LONG_BINPUT).
    pub(super) fn puts(&self) -> bool {
        self.puts
    }

    /// Returns the value that STOP leaves on the stack.
    pub(super) fn result(&mut self, start: usize) -> Result<Item> {
        let top = self.operands.pop(start)?;
        let n_left = self.operands.len();
        if n_left > 0 {
            let what = format!("{n_left} more values are on the stack below the one that the file ends with");
            self.findings.at_byte(Rule::PickleOpcodes, Severity::Error, start, what);
        }
        Ok(top)
    }

    /// Runs one opcode, whose byte is at `start`.
    // The loop over all opcodes is its one caller.
    #[inline(always)]
    pub(super) fn step(&mut self, op: u8, start: usize) -> Attempt<Effect> {
        match op {
            opcode::BINGET => {
                let index = self.input.byte()?;
                self.fetch(u32::from(index), start)?;
            }
            opcode::LONG_BINGET => {
                let index = self.input.u32()?;
                self.fetch(index, start)?;
            }
            opcode::MEMOIZE => {
                self.memoizes = true;
                return Ok(self.put(self.memo.next(), start)?);
            }
            opcode::BINPUT => {
                self.puts = true;
                let index = self.input.byte()?;
                return Ok(self.put(u32::from(index), start)?);
            }
            opcode::LONG_BINPUT => {
                self.puts = true;
                let index = self.input.u32()?;
                return Ok(self.put(index, start)?);
            }
            opcode::MARK => self.operands.push_mark(),
            opcode::FRAME => {
                self.input.array::<8>()?;
            }
            opcode::PROTO => self.protocol(start)?,
            _ => {
                if let Some(item) = self.literals().common(op, start)? {
                    self.operands.push(item);
                } else {
                    return self.container_step(op, start);
                }
            }
        }
        Ok(Effect::None)
    }

    fn container_step(&mut self, op: u8, start: usize) -> Attempt<Effect> {
        match op {
            opcode::EMPTY_DICT => self.push_empty(Kind::Dict, start),
            opcode::EMPTY_LIST => self.push_empty(Kind::List, start),
            opcode::EMPTY_TUPLE => self.push_empty(Kind::Tuple, start),
            opcode::TUPLE1 | opcode::TUPLE2 | opcode::TUPLE3 => {
                let n = usize::from(op - opcode::TUPLE1) + 1;
                let from = self.operands.index_of(n, 0, start)?;
                return self.collect(Kind::Tuple, from, start);
            }
            opcode::TUPLE | opcode::LIST | opcode::DICT => {
                let from = self.operands.pop_mark(start)?;
                let kind = match op {
                    opcode::TUPLE => Kind::Tuple,
                    opcode::LIST => Kind::List,
                    _ => Kind::Dict,
                };
                return self.collect(kind, from, start);
            }
            opcode::APPEND => return self.extend(Kind::List, 1, start),
            opcode::SETITEM => return self.extend(Kind::Dict, 2, start),
            opcode::APPENDS => {
                let n = self.operands.len() - self.operands.pop_mark(start)?;
                self.findings.batch(n, start);
                return self.extend(Kind::List, n, start);
            }
            opcode::SETITEMS => {
                let n = self.operands.len() - self.operands.pop_mark(start)?;
                return self.extend(Kind::Dict, n, start);
            }
            _ => {
                let item = self.literals().rare(op, start)?;
                self.operands.push(item);
            }
        }
        Ok(Effect::None)
    }

    fn protocol(&mut self, start: usize) -> Result<()> {
        let version = self.input.byte()?;
        if version > 5 {
            let what = format!("pickle protocol {version} is unknown; 0 to 5 are read");
            return Err(Error::malformed(start as u64, what));
        }
        self.findings.protocol(version, start);
        Ok(())
    }

    /// Returns a reader of the values that are written out in the bytes.
    fn literals(&mut self) -> Literals<'_, 'a> {
        let Parser { input, nodes, words, findings, .. } = self;
        Literals { input, nodes, words, findings }
    }

    fn fetch(&mut self, index: u32, start: usize) -> Result<()> {
        match self.memo.get(index) {
            Item::Absent => {
                Err(Error::malformed(start as u64, format!("nothing was memoized as number {index}")))
            }
            item => {
                self.nodes.mark_fetched(item);
                self.operands.push(item);
                Ok(())
            }
        }
    }

    fn put(&mut self, index: u32, start: usize) -> Result<Effect> {
        let top = self.operands.index_of(1, 0, start)?;
        if self.memoizes && self.puts {
            self.findings.mixed_memo(start);
        }
        let item = self.operands.get(top);
        if let Item::Node(id) = item {
            self.nodes.number(id, index);
        }
        let was_taken = self.memo.put(index, item);
        Ok(if was_taken { Effect::NumberReassigned } else { Effect::None })
    }

    /// Returns the only place in the memo of the container on top of the operand stack, if it can be replaced.
    pub(super) fn place_in_memo(&self, id: NodeId) -> Option<InMemo> {
        let place = self.nodes.place_in_memo(id)?;
        let is_there = match place {
            InMemo::Nowhere => true,
            InMemo::At(number) => self.memo.can_refine(number, Item::Node(id)),
        };
        is_there.then_some(place)
    }

    /// Replaces the container on top of the operand stack by what was built from it, and frees it.
    pub(super) fn replace_top(&mut self, id: NodeId, place: InMemo, item: Item) {
        self.nodes.remove_from(id);
        self.operands.replace_top(item);
        if let InMemo::At(number) = place {
            self.memo.refine(number, item);
        }
    }

    fn push_empty(&mut self, kind: Kind, start: usize) {
        let id = self.nodes.add(kind, start);
        self.operands.push(Item::Node(id));
    }

    /// Moves the topmost items into a new container.
    fn collect(&mut self, kind: Kind, from: usize, start: usize) -> Attempt<Effect> {
        if let (Kind::Tuple, [a, b]) = (kind, self.operands.from(from))
            && let (Some(a), Some(b)) = (self.nodes.int(*a), self.nodes.int(*b))
        {
            let pair = self.nodes.add_pair((a, b));
            self.operands.truncate(from);
            self.operands.push(pair);
            return Ok(Effect::None);
        }
        let n = self.operands.len() - from;
        let id = self.nodes.add(kind, start);
        self.operands.insert(from, Item::Node(id));
        self.extend(kind, n, start)
    }

    /// Moves the topmost `n` items into the container below them.
    fn extend(&mut self, kind: Kind, n: usize, start: usize) -> Attempt<Effect> {
        let from = self.operands.index_of(n, 1, start)?;
        let id = match self.operands.get(from - 1) {
            Item::Node(id) if self.nodes.get(id).kind == kind => id,
            Item::Entry(_) | Item::Frame(_) | Item::Stack(_) => return Err(Failure::Fallback),
            _ => return Err(Error::malformed(start as u64, "nothing here can hold what is added").into()),
        };
        if kind == Kind::Dict {
            self.check_keys(from, start)?;
        }
        if n > MANY {
            self.check_memory(n * size_of::<Item>(), start)?;
        }
        self.nodes.grow(id, self.operands.from(from), start)?;
        self.operands.truncate(from);
        Ok(match kind {
            Kind::Dict => Effect::DictGrew(id),
            Kind::List => Effect::ListGrew(id),
            Kind::Tuple => Effect::None,
        })
    }

    fn check_keys(&mut self, from: usize, start: usize) -> Result<()> {
        let pairs = self.operands.from(from);
        if pairs.len() % 2 == 1 {
            return Err(Error::malformed(start as u64, "a dict's last key has no value"));
        }
        for pair in pairs.chunks_exact(2) {
            match pair[0] {
                Item::Node(id) if self.nodes.get(id).kind == Kind::Tuple => {}
                Item::Node(_) | Item::Entry(_) | Item::Frame(_) | Item::Stack(_) => {
                    return Err(Error::malformed(start as u64, "a dict key is a list or a dict"));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Reads the rest of an opcode for a text or an item from the memo, at a cursor of the fast path.
    pub(super) fn shared_item(&mut self, c: &mut Cursor<'a>, op: u8) -> Option<Item> {
        match op {
            opcode::BINGET => {
                let index = c.next_byte()?;
                Some(self.memo.get(u32::from(index)))
            }
            opcode::LONG_BINGET => {
                let index = u32::from_le_bytes(c.next_bytes()?);
                Some(self.memo.get(index))
            }
            opcode::SHORT_BINUNICODE | opcode::BINUNICODE => {
                self.input.move_to(c.pos);
                let item = Item::Text(self.literals().text(op, c.pos - 1).ok()?);
                c.pos = self.input.pos();
                self.memoize(c, item)?;
                Some(item)
            }
            _ => None,
        }
    }

    /// Puts an item in the memo if the next opcode at a cursor of the fast path does.
    #[inline(always)]
    pub(super) fn memoize(&mut self, c: &mut Cursor<'a>, item: Item) -> Option<()> {
        if self.memo.is_closed() {
            c.skip_memo_opcode();
            return Some(());
        }
        let op = *c.bytes.get(c.pos)?;
        let index = match op {
            opcode::MEMOIZE => {
                c.pos += 1;
                self.memo.next()
            }
            opcode::BINPUT => {
                c.pos += 1;
                u32::from(c.next_byte()?)
            }
            opcode::LONG_BINPUT => {
                c.pos += 1;
                u32::from_le_bytes(c.next_bytes()?)
            }
            _ => return Some(()),
        };
        // The slow path reports files that mix the two; it also takes the first opcode of either.
        let is_usual =
            if op == opcode::MEMOIZE { self.memoizes && !self.puts } else { self.puts && !self.memoizes };
        if !is_usual {
            return None;
        }
        self.memo.attempt(index, item)
    }
}
