//! The fast road: a trace entry's dictionary, decoded where it stands.
//!
//! A trace has a million dictionaries of the same few keys. This road takes
//! those whose values are of the right type and whose stack is known by
//! number; on anything else it goes back to the dictionary's first byte,
//! and the general machine takes over. It decides nothing that the general
//! machine would decide otherwise.

#![forbid(unsafe_code)]

use std::ops::Range;

use rustc_hash::FxHashMap;

use super::{
    cursor::{Cursor, Prefix},
    entry_spans::{Entries, Piece},
    frames::BEGINNING,
    node::{Item, Key, TextId},
    parser::{Halt, Machine, Step},
};
use crate::{
    pickle::opcode,
    snapshot::{Field, Shape, ShapeId, Slot, StackIndex, TraceEntry},
};

/// More keys than any PyTorch writes.
const MAX_KEYS: usize = 16;

/// What the entries decoded so far have in common.
#[derive(Debug, Default)]
pub(super) struct Road<'a> {
    /// The entries, in the order of the file.
    pub(super) entries: Entries,
    /// Lists of memo numbers, as they stand in the file, whose stack is known.
    pub(super) stacks: FxHashMap<&'a [u8], StackIndex>,
    /// The last of them for each beginning, because two comparisons cost less
    /// than to find a list's end and to hash it.
    pub(super) recent: FxHashMap<[u8; BEGINNING], (&'a [u8], StackIndex)>,
    shapes: FxHashMap<Box<[Pair]>, ShapeId>,
    /// The keys of the entry being decoded.
    pairs: Vec<Pair>,
    /// How the last entry that was decoded key by key stood in the file.
    plan: Vec<Planned>,
    /// The shape of entries that stand like that.
    plan_shape: Option<ShapeId>,
}

/// A key that the next entry has in the same place, as the bytes that it takes.
#[derive(Clone, Copy, Debug)]
struct Planned {
    key: Key,
    bytes: Prefix,
    /// Of a key without a field: the value as it stands in the file, and what
    /// is put in the memo with it.
    value: Option<(Prefix, Item)>,
}

/// A key with its value, or with [`Item::Absent`] if the value is in a field.
type Pair = (TextId, Item);

impl Road<'_> {
    /// Forgets what rests on numbers of the memo.
    pub(super) fn forget_numbers(&mut self) {
        self.stacks.clear();
        self.recent.clear();
        self.plan_shape = None;
    }
}

impl<'a> Machine<'a> {
    /// Decodes the dictionary that begins before `pos`, if it is an ordinary entry.
    pub(super) fn entry(&mut self) -> Step<bool> {
        let start = self.pos;
        let Some((entry, end)) = self.decoded(start)? else {
            self.pos = start;
            return Ok(false);
        };
        self.pos = end;
        self.stack.push(Item::Entry(self.road.entries.len()));
        self.road.entries.push(entry, start - 1, end);
        Ok(true)
    }

    /// An ordinary entry, from behind the byte that begins it to its end; `None` if it is none.
    #[inline(always)]
    fn decoded(&mut self, start: usize) -> Step<Option<(TraceEntry, usize)>> {
        let start = Cursor { bytes: self.bytes, pos: start };
        self.memo.begin();
        if let Some(shape) = self.road.plan_shape {
            let mut c = start;
            let mut entry = TraceEntry { shape, ..TraceEntry::default() };
            if self.planned_entry(&mut c, &mut entry).is_some() {
                return Ok(Some((entry, c.pos)));
            }
            self.memo.rewind();
        }
        let mut c = start;
        if let Some(entry) = self.ordinary_entry(&mut c) {
            let shape = self.entry_shape()?;
            self.road.plan_shape = (self.road.plan.len() == self.road.pairs.len()).then_some(shape);
            return Ok(Some((TraceEntry { shape, ..entry }, c.pos)));
        }
        self.memo.rewind();
        Ok(None)
    }

    /// The entry that begins at a byte where one was decoded before, and where it ends. `None` if the
    /// bytes are others now.
    #[inline(always)]
    pub(super) fn entry_again(&mut self, at: usize) -> Option<(TraceEntry, usize)> {
        if self.bytes.get(at) != Some(&opcode::EMPTY_DICT) {
            return None;
        }
        self.decoded(at + 1).ok()?
    }

    /// Decodes entries of these numbers again. False if the bytes are others now.
    pub(super) fn again(&mut self, entries: Range<u32>, look: &mut dyn FnMut(&TraceEntry)) -> bool {
        let mut next = entries.start;
        while next < entries.end {
            let Entries::Left(pieces) = &self.road.entries else { return false };
            match pieces.of(next) {
                Some((_, Piece::Kept(entry))) => {
                    look(&entry);
                    next += 1;
                }
                Some((numbers, Piece::Run(mut at))) => {
                    for number in numbers.start..numbers.end.min(entries.end) {
                        let Some((entry, end)) = self.entry_again(at) else { return false };
                        if number >= next {
                            look(&entry);
                        }
                        at = end;
                    }
                    next = numbers.end;
                }
                None => return false,
            }
        }
        true
    }

    /// Decodes an entry that stands like the last one: the same keys from the
    /// same places, and the same values of those that are no fields.
    #[inline(always)]
    fn planned_entry(&mut self, c: &mut Cursor<'a>, entry: &mut TraceEntry) -> Option<()> {
        self.memoize(c, Item::Entry(self.road.entries.len()))?;
        c.expect(opcode::MARK)?;
        for at in 0..self.road.plan.len() {
            let Planned { key, bytes, value } = self.road.plan[at];
            c.expect_prefix(bytes)?;
            match value {
                None => self.field(c, key, entry)?,
                Some((bytes, item)) => {
                    c.expect_prefix(bytes)?;
                    if item != Item::Absent {
                        self.memo.attempt(self.memo.next(), item)?;
                    }
                }
            }
        }
        c.expect(opcode::SETITEMS)
    }

    /// Notes how a key and its value stood, where they can stand so again: a
    /// key fetched from the memo, a value that puts nothing there under a number.
    fn plan(
        &mut self,
        c: &mut Cursor<'a>,
        key: Key,
        key_bytes: (usize, usize),
        memoized: Item,
    ) -> Option<()> {
        let (begin, middle) = key_bytes;
        let slice = c.bytes.get(begin..middle)?;
        if !matches!(slice.first(), Some(&opcode::BINGET | &opcode::LONG_BINGET))
            || memoized != Item::Absent && self.puts
        {
            return None;
        }
        let value = match key {
            Key::Other => Some((Prefix::new(c.bytes.get(middle..c.pos)?)?, memoized)),
            _ => None,
        };
        self.road.plan.push(Planned { key, bytes: Prefix::new(slice)?, value });
        Some(())
    }

    fn ordinary_entry(&mut self, c: &mut Cursor<'a>) -> Option<TraceEntry> {
        self.memoize(c, Item::Entry(self.road.entries.len()))?;
        c.expect(opcode::MARK)?;
        self.road.pairs.clear();
        self.road.plan.clear();
        self.road.plan_shape = None;
        let mut entry = TraceEntry::default();
        let mut seen = 0u16;
        while !c.accept(opcode::SETITEMS) {
            let begin = c.pos;
            let (id, key) = self.entry_key(c)?;
            let (middle, n_put) = (c.pos, self.memo.next());
            let mut value = Item::Absent;
            if self.road.pairs.is_empty() && key != Key::Action {
                return None;
            }
            if key == Key::Other {
                if self.road.pairs.len() == MAX_KEYS || self.road.pairs.iter().any(|(other, _)| *other == id)
                {
                    return None;
                }
                value = self.shared_value(c)?;
            } else {
                // `addr` and `device_free` share a field, so one of the two may come.
                let bit = 1 << if key == Key::DeviceFree { Key::Addr as u8 } else { key as u8 };
                if seen & bit != 0 {
                    return None;
                }
                seen |= bit;
                self.field(c, key, &mut entry)?;
            }
            self.road.pairs.push((id, value));
            let memoized = if self.memo.next() == n_put { Item::Absent } else { value };
            let _ = self.plan(c, key, (begin, middle), memoized);
        }
        (!self.road.pairs.is_empty()).then_some(entry)
    }

    #[inline(always)]
    fn field(&mut self, c: &mut Cursor<'a>, key: Key, entry: &mut TraceEntry) -> Option<()> {
        match key {
            Key::Action => {
                let id = self.text_item(c)?;
                entry.action = self.words.get(id).action;
                entry.action?;
            }
            Key::Addr | Key::DeviceFree => entry.address = c.unsigned()?,
            Key::Size => entry.size = c.unsigned()?,
            Key::Stream => entry.stream.0 = c.int()?,
            Key::TimeUs => entry.time_us = c.int()?,
            Key::Frames => entry.stack = Some(self.frames(c)?),
            Key::Proto | Key::Other => return None,
        }
        Some(())
    }

    #[inline]
    fn entry_key(&mut self, c: &mut Cursor<'a>) -> Option<(TextId, Key)> {
        let id = self.text_item(c)?;
        Some((id, self.words.get(id).key))
    }

    #[inline(always)]
    fn text_item(&mut self, c: &mut Cursor<'a>) -> Option<TextId> {
        let item = match c.next_byte()? {
            opcode::BINGET => {
                let index = c.next_byte()?;
                self.memo.get(u32::from(index))
            }
            op => self.fetched_or_written(c, op)?,
        };
        if let Item::Text(id) = item { Some(id) } else { None }
    }

    /// A value from the memo, or a text that stands here.
    fn fetched_or_written(&mut self, c: &mut Cursor<'a>, op: u8) -> Option<Item> {
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
                self.pos = c.pos;
                let n_bytes = self.text_length(op).ok()?;
                let item = Item::Text(self.text(n_bytes, c.pos - 1).ok()?);
                c.pos = self.pos;
                self.memoize(c, item)?;
                Some(item)
            }
            _ => None,
        }
    }

    /// The value of a key that has no field: small things, or what the memo holds.
    fn shared_value(&mut self, c: &mut Cursor<'a>) -> Option<Item> {
        match c.next_byte()? {
            opcode::NONE => Some(Item::None),
            opcode::NEWTRUE => Some(Item::Bool(true)),
            opcode::NEWFALSE => Some(Item::Bool(false)),
            opcode::BININT1 | opcode::BININT2 | opcode::BININT | opcode::LONG1 => {
                c.pos -= 1;
                let pair = (c.int()?, c.int()?);
                c.expect(opcode::TUPLE2)?;
                let item = self.nodes.pair(pair);
                self.memoize(c, item)?;
                Some(item)
            }
            op => match self.fetched_or_written(c, op)? {
                // What may turn out to be a stack is something else when it is decoded again.
                Item::Node(id) if self.leaves_entries() && self.nodes.get(id).could_be_stack() => None,
                Item::Node(id) => {
                    self.nodes.get_mut(id).is_frozen = true;
                    Some(Item::Node(id))
                }
                item @ (Item::Text(_) | Item::None | Item::Bool(_) | Item::Pair(_)) => Some(item),
                _ => None,
            },
        }
    }

    /// Puts an item in the memo if the next opcode says so.
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
        // Files that mix the two go where that is told, and so does the first of either.
        let is_usual =
            if op == opcode::MEMOIZE { self.memoizes && !self.puts } else { self.puts && !self.memoizes };
        if !is_usual {
            return None;
        }
        self.memo.attempt(index, item)
    }

    /// The number of the keys just decoded.
    fn entry_shape(&mut self) -> Step<ShapeId> {
        match self.road.shapes.get(&*self.road.pairs) {
            Some(shape) => Ok(*shape),
            None => self.new_shape(),
        }
    }

    fn new_shape(&mut self) -> Step<ShapeId> {
        if self.memo.is_closed() {
            return Err(Halt::Unusual);
        }
        let pairs: Box<[Pair]> = self.road.pairs.as_slice().into();
        let mut shape = Shape::default();
        for (id, item) in &pairs {
            let word = self.words.get(*id);
            let (text, key) = (word.text.clone(), word.key);
            let slot = match field(key) {
                Some(field) => Slot::Field(field),
                None => Slot::Value(self.value(*item)?),
            };
            shape.slots.push((text, slot));
        }
        let id = self.snapshot.shapes.intern(shape);
        self.road.shapes.insert(pairs, id);
        Ok(id)
    }
}

fn field(key: Key) -> Option<Field> {
    Some(match key {
        Key::Action => Field::Action,
        Key::Addr => Field::Addr,
        Key::DeviceFree => Field::DeviceFree,
        Key::Size => Field::Size,
        Key::Stream => Field::Stream,
        Key::TimeUs => Field::TimeUs,
        Key::Frames => Field::Frames,
        Key::Proto | Key::Other => return None,
    })
}
