//! The fast path: decodes the dictionary of a trace entry directly from its bytes.
//!
//! A trace has a million dictionaries with the same few keys. The decoder handles those whose values have the right
//! types and whose stack is known by number. On anything else it returns to the dictionary's first byte, and the parser
//! reads the dictionary opcode by opcode. Its results never differ from the parser's.

#![forbid(unsafe_code)]

use std::ops::Range;

use super::{
    cursor::Cursor,
    entry_plan::PlannedKey,
    entry_spans::{Entries, EntrySpans, Span},
    failure::{Attempt, Failure},
    interner::{Interner, pairs_of},
    node::{Item, NodeId, TextId},
    parser::Parser,
    stack_lists::StackLists,
    words::Key,
};
use crate::{
    model::{Shape, ShapeId, Slot, TraceEntry},
    pickle::opcode,
    words::{SeededMap, StreamId},
};

/// More keys than any version of PyTorch writes.
const MAX_KEYS: usize = 16;

/// Decodes entries; keeps what the entries decoded so far have in common.
#[derive(Debug, Default)]
pub(super) struct EntryDecoder<'a> {
    /// The entries, in the order of the file.
    pub(super) entries: Entries,
    pub(super) lists: StackLists<'a>,
    shapes: SeededMap<Box<[Pair]>, ShapeId>,
    /// The keys of the entry being decoded.
    pairs: Vec<Pair>,
    /// The layout of the last entry that was decoded key by key.
    plan: Vec<PlannedKey>,
    /// The shape of entries with that layout, if all their keys are planned.
    plan_shape: Option<ShapeId>,
}

/// A key with its value, or with [`Item::Absent`] if the value is in a field.
type Pair = (TextId, Item);

impl<'a> EntryDecoder<'a> {
    /// Returns the bytes of memory that it takes.
    pub(super) fn n_bytes(&self) -> usize {
        let of_shape = size_of::<(Box<[Pair]>, ShapeId)>() + 4 * size_of::<Pair>();
        self.entries.n_bytes() + self.shapes.len() * of_shape
    }

    /// Returns a decoder that leaves the entries in the file.
    pub(super) fn lazy() -> Self {
        EntryDecoder { entries: Entries::InFile(EntrySpans::default()), ..EntryDecoder::default() }
    }

    /// Returns whether entries stay in the file and are decoded again whenever they are needed.
    pub(super) fn is_lazy(&self) -> bool {
        matches!(self.entries, Entries::InFile(_))
    }

    /// Discards what depends on numbers of the memo.
    pub(super) fn forget_numbers(&mut self) {
        self.lists.clear();
        self.plan_shape = None;
    }

    /// Decodes the dictionary that starts before the next byte, if it is an ordinary entry. Returns whether it is.
    // Inlined into the reader's loop: a call for each entry makes loading a file some 7 % slower.
    #[inline(always)]
    pub(super) fn read(&mut self, parser: &mut Parser<'a>, interner: &mut Interner) -> Attempt<bool> {
        let start = parser.input.pos();
        let Some((entry, end)) = self.decode(start, parser, interner)? else {
            parser.input.move_to(start);
            return Ok(false);
        };
        parser.input.move_to(end);
        parser.operands.push(Item::Entry(self.entries.len()));
        self.entries.push(entry, start - 1, end);
        Ok(true)
    }

    /// Takes over an entry that the parser has just read as a dictionary, so that a trace remains in one span.
    ///
    /// # Errors
    /// If a value of the entry can only be read on the slow path, or is refused there.
    pub(super) fn adopt(
        &mut self,
        id: NodeId,
        parser: &mut Parser<'a>,
        interner: &mut Interner,
    ) -> Attempt<()> {
        let first = parser.nodes.get(id).items.first();
        let is_entry = matches!(first, Some(Item::Text(key)) if parser.words.get(*key).key == Key::Action);
        if !is_entry || pairs_of(id, parser).is_err() {
            return Ok(());
        }
        let (place, item) = (parser.place_in_memo(id), Item::Entry(self.entries.len()));
        if place.is_some() {
            parser.nodes.begin_making(id);
        }
        // Values that were made before one failed may have taken the items of their containers.
        let entry = interner.entry(id, parser).map_err(|_| Failure::Fallback)?;
        parser.nodes.end_making();
        self.entries.keep(entry);
        match place {
            Some(place) => parser.replace_top(id, place, item),
            None => {
                parser.operands.replace_top(item);
                let node = parser.nodes.get_mut(id);
                (node.is_record, node.is_frozen) = (true, true);
            }
        }
        Ok(())
    }

    /// Decodes entries with these numbers again. Returns false if the bytes have changed.
    pub(super) fn decode_again(
        &mut self,
        entries: Range<u32>,
        parser: &mut Parser<'a>,
        interner: &mut Interner,
        look: &mut dyn FnMut(&TraceEntry),
    ) -> bool {
        let mut next = entries.start;
        while next < entries.end {
            let Entries::InFile(spans) = &self.entries else { return false };
            match spans.find(next) {
                Some((_, Span::InMemory(entry))) => {
                    look(&entry);
                    next += 1;
                }
                Some((numbers, Span::InFile(mut at))) => {
                    for number in numbers.start..numbers.end.min(entries.end) {
                        let Some((entry, end)) = self.decode_at(at, parser, interner) else { return false };
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

    /// Decodes the entry at an offset where one was decoded before. `None` if the bytes have changed.
    #[inline(always)]
    fn decode_at(
        &mut self,
        at: usize,
        parser: &mut Parser<'a>,
        interner: &mut Interner,
    ) -> Option<(TraceEntry, usize)> {
        if parser.input.bytes().get(at) != Some(&opcode::EMPTY_DICT) {
            return None;
        }
        self.decode(at + 1, parser, interner).ok()?
    }

    /// Decodes the entry whose first byte is before `start`; returns it with the offset of its end.
    #[inline(always)]
    fn decode(
        &mut self,
        start: usize,
        parser: &mut Parser<'a>,
        interner: &mut Interner,
    ) -> Attempt<Option<(TraceEntry, usize)>> {
        let start = Cursor { bytes: parser.input.bytes(), pos: start };
        parser.memo.begin();
        if let Some(shape) = self.plan_shape {
            let mut c = start;
            let mut entry = TraceEntry { shape, ..TraceEntry::default() };
            if self.planned_entry(&mut c, &mut entry, parser, interner).is_some() {
                return Ok(Some((entry, c.pos)));
            }
            parser.memo.rewind();
        }
        let mut c = start;
        if let Some(entry) = self.unplanned_entry(&mut c, parser, interner) {
            let shape = self.entry_shape(parser, interner)?;
            self.plan_shape = (self.plan.len() == self.pairs.len()).then_some(shape);
            return Ok(Some((TraceEntry { shape, ..entry }, c.pos)));
        }
        parser.memo.rewind();
        Ok(None)
    }

    /// Decodes an entry with the layout of the last one: the same keys in the same places, and the same values of
    /// keys without a field.
    #[inline(always)]
    fn planned_entry(
        &mut self,
        c: &mut Cursor<'a>,
        entry: &mut TraceEntry,
        parser: &mut Parser<'a>,
        interner: &mut Interner,
    ) -> Option<()> {
        parser.memoize(c, Item::Entry(self.entries.len()))?;
        c.expect(opcode::MARK)?;
        for at in 0..self.plan.len() {
            let PlannedKey { key, bytes, value } = self.plan[at];
            c.expect_prefix(bytes)?;
            match value {
                None => self.field(c, key, entry, parser, interner)?,
                Some((bytes, item)) => {
                    c.expect_prefix(bytes)?;
                    if item != Item::Absent {
                        parser.memo.attempt(parser.memo.next(), item)?;
                    }
                }
            }
        }
        c.expect(opcode::SETITEMS)
    }

    /// Decodes an entry key by key, and plans the next one.
    fn unplanned_entry(
        &mut self,
        c: &mut Cursor<'a>,
        parser: &mut Parser<'a>,
        interner: &mut Interner,
    ) -> Option<TraceEntry> {
        parser.memoize(c, Item::Entry(self.entries.len()))?;
        c.expect(opcode::MARK)?;
        self.pairs.clear();
        self.plan.clear();
        self.plan_shape = None;
        let mut entry = TraceEntry::default();
        let mut seen = 0u16;
        while !c.accept(opcode::SETITEMS) {
            let begin = c.pos;
            let id = text(c, parser)?;
            let key = parser.words.get(id).key;
            let (middle, n_put) = (c.pos, parser.memo.next());
            let mut value = Item::Absent;
            if self.pairs.is_empty() && key != Key::Action {
                return None;
            }
            if key == Key::Other {
                if self.pairs.len() == MAX_KEYS || self.pairs.iter().any(|(other, _)| *other == id) {
                    return None;
                }
                value = self.other_value(c, parser)?;
            } else {
                // `addr` and `device_free` share a field, so an entry has one of the two.
                let bit = 1 << if key == Key::DeviceFree { Key::Addr as u8 } else { key as u8 };
                if seen & bit != 0 {
                    return None;
                }
                seen |= bit;
                self.field(c, key, &mut entry, parser, interner)?;
            }
            self.pairs.push((id, value));
            let memoized = if parser.memo.next() == n_put { Item::Absent } else { value };
            self.plan.extend(PlannedKey::new(c, key, begin..middle, memoized, parser.puts()));
        }
        (!self.pairs.is_empty()).then_some(entry)
    }

    #[inline(always)]
    fn field(
        &mut self,
        c: &mut Cursor<'a>,
        key: Key,
        entry: &mut TraceEntry,
        parser: &mut Parser<'a>,
        interner: &mut Interner,
    ) -> Option<()> {
        match key {
            Key::Action => {
                let id = text(c, parser)?;
                entry.action = parser.words.get(id).action;
                entry.action?;
            }
            Key::Addr | Key::DeviceFree => entry.address = c.address()?,
            Key::Size => entry.size = c.unsigned()?,
            Key::Stream => entry.stream = StreamId(c.int()?),
            Key::TimeUs => entry.time_us = c.int()?,
            Key::Frames => entry.stack = Some(self.lists.field(c, parser, interner)?),
            Key::Other => return None,
        }
        Some(())
    }

    /// Reads the value of a key without a field: a small value, or one from the memo.
    fn other_value(&self, c: &mut Cursor<'a>, parser: &mut Parser<'a>) -> Option<Item> {
        match c.next_byte()? {
            opcode::NONE => Some(Item::None),
            opcode::NEWTRUE => Some(Item::Bool(true)),
            opcode::NEWFALSE => Some(Item::Bool(false)),
            opcode::BININT1 | opcode::BININT2 | opcode::BININT | opcode::LONG1 => {
                c.pos -= 1;
                let pair = (c.int()?, c.int()?);
                c.expect(opcode::TUPLE2)?;
                let item = parser.nodes.add_pair(pair);
                parser.memoize(c, item)?;
                Some(item)
            }
            op => match parser.shared_item(c, op)? {
                // A list that a later entry uses as its stack would be another item when it is decoded again.
                Item::Node(id) if self.is_lazy() && parser.nodes.get(id).could_be_stack() => None,
                item @ Item::Node(id) => {
                    parser.nodes.freeze(id);
                    parser.nodes.mark_fetched(item);
                    Some(item)
                }
                item @ (Item::Text(_) | Item::None | Item::Bool(_) | Item::Pair(_) | Item::Frame(_)) => {
                    Some(item)
                }
                _ => None,
            },
        }
    }

    /// Returns the shape of the keys just decoded.
    fn entry_shape(&mut self, parser: &mut Parser<'a>, interner: &mut Interner) -> Attempt<ShapeId> {
        match self.shapes.get(&*self.pairs) {
            Some(shape) => Ok(*shape),
            None => self.new_shape(parser, interner),
        }
    }

    fn new_shape(&mut self, parser: &mut Parser<'a>, interner: &mut Interner) -> Attempt<ShapeId> {
        if parser.memo.is_closed() {
            return Err(Failure::Fallback);
        }
        let mut shape = Shape::default();
        for (id, item) in &self.pairs {
            let word = parser.words.get(*id);
            let (text, key) = (word.text.clone(), word.key);
            let slot = match key.field() {
                Some(field) => Slot::Field(field),
                None => Slot::Value(interner.value(*item, parser)?),
            };
            shape.slots.push((text, slot));
        }
        let id = interner.shapes.intern(shape);
        self.shapes.insert(self.pairs.as_slice().into(), id);
        Ok(id)
    }
}

/// Reads a text, written out or from the memo.
#[inline(always)]
fn text<'a>(c: &mut Cursor<'a>, parser: &mut Parser<'a>) -> Option<TextId> {
    let item = match c.next_byte()? {
        opcode::BINGET => {
            let index = c.next_byte()?;
            parser.memo.get(u32::from(index))
        }
        op => parser.shared_item(c, op)?,
    };
    if let Item::Text(id) = item { Some(id) } else { None }
}
