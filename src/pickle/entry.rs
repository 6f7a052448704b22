//! The fast road: a trace entry's dictionary, decoded where it stands.
//!
//! A trace has a million dictionaries of the same few keys. This road takes
//! those whose values are of the right type and whose stack is known by
//! number; on anything else it goes back to the dictionary's first byte,
//! and the general machine takes over. It decides nothing that the general
//! machine would decide otherwise.

#![forbid(unsafe_code)]

use rustc_hash::FxHashMap;

use super::{
    machine::{MAX_SAFE, Machine, Step, long},
    node::{Item, Key, TextId, number},
    op,
};
use crate::snapshot::{Field, Shape, ShapeId, Slot, StackIndex, TraceEntry};

/// More keys than any PyTorch writes.
const MAX_KEYS: usize = 16;

/// What the entries decoded so far have in common.
#[derive(Debug, Default)]
pub(super) struct Road<'a> {
    /// The entries, in the order of the file.
    pub(super) entries: Vec<TraceEntry>,
    /// Lists of memo numbers, as they stand in the file, whose stack is known.
    stacks: FxHashMap<&'a [u8], StackIndex>,
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

/// One to eight bytes, compared in one step.
#[derive(Clone, Copy, Debug)]
struct Prefix {
    bytes: u64,
    mask: u64,
    n_bytes: usize,
}

impl Prefix {
    fn new(bytes: &[u8]) -> Option<Prefix> {
        let mut all = [0; 8];
        all.get_mut(..bytes.len())?.copy_from_slice(bytes);
        let mask = u64::MAX.checked_shr(64 - 8 * u32::try_from(bytes.len()).ok()?)?;
        Some(Prefix { bytes: u64::from_le_bytes(all), mask, n_bytes: bytes.len() })
    }
}

/// A key with its value, or with [`Item::Absent`] if the value is in a field.
type Pair = (TextId, Item);

impl Road<'_> {
    /// Forgets what rests on numbers of the memo.
    pub(super) fn forget_numbers(&mut self) {
        self.stacks.clear();
        self.plan_shape = None;
    }
}

impl<'a> Machine<'a> {
    /// Decodes the dictionary that begins before `pos`, if it is an ordinary entry.
    pub(super) fn entry(&mut self) -> Step<bool> {
        let start = self.pos;
        self.memo.begin();
        if let Some(shape) = self.road.plan_shape {
            let mut entry = TraceEntry { shape, ..TraceEntry::default() };
            if self.planned_entry(&mut entry).is_some() {
                self.push_entry(entry);
                return Ok(true);
            }
            self.memo.rewind();
            self.pos = start;
        }
        match self.ordinary_entry() {
            Some(entry) => {
                let shape = self.entry_shape()?;
                self.road.plan_shape = (self.road.plan.len() == self.road.pairs.len()).then_some(shape);
                self.push_entry(TraceEntry { shape, ..entry });
                Ok(true)
            }
            None => {
                self.memo.rewind();
                self.pos = start;
                Ok(false)
            }
        }
    }

    #[inline]
    fn push_entry(&mut self, entry: TraceEntry) {
        self.stack.push(Item::Entry(number(self.road.entries.len())));
        self.road.entries.push(entry);
    }

    /// Decodes an entry that stands like the last one: the same keys from the
    /// same places, and the same values of those that are no fields.
    #[inline]
    fn planned_entry(&mut self, entry: &mut TraceEntry) -> Option<()> {
        self.memoize(Item::Entry(number(self.road.entries.len())))?;
        self.expect(op::MARK)?;
        for at in 0..self.road.plan.len() {
            let Planned { key, bytes, value } = self.road.plan[at];
            self.expect_prefix(bytes)?;
            match value {
                None => self.field(key, entry)?,
                Some((bytes, item)) => {
                    self.expect_prefix(bytes)?;
                    if item != Item::Absent {
                        self.memo.attempt(self.memo.next(), item)?;
                    }
                }
            }
        }
        self.expect(op::SETITEMS)
    }

    #[inline]
    fn expect_prefix(&mut self, prefix: Prefix) -> Option<()> {
        let bytes = self.bytes.get(self.pos..)?.first_chunk()?;
        self.pos += prefix.n_bytes;
        (u64::from_le_bytes(*bytes) & prefix.mask == prefix.bytes).then_some(())
    }

    /// Notes how a key and its value stood, where they can stand so again: a
    /// key fetched from the memo, a value that puts nothing there under a number.
    fn plan(&mut self, key: Key, key_bytes: (usize, usize), memoized: Item) -> Option<()> {
        let (begin, middle) = key_bytes;
        let slice = self.bytes.get(begin..middle)?;
        if !matches!(slice.first(), Some(&op::BINGET | &op::LONG_BINGET))
            || memoized != Item::Absent && self.puts
        {
            return None;
        }
        let value = match key {
            Key::Other => Some((Prefix::new(self.bytes.get(middle..self.pos)?)?, memoized)),
            _ => None,
        };
        self.road.plan.push(Planned { key, bytes: Prefix::new(slice)?, value });
        Some(())
    }

    fn ordinary_entry(&mut self) -> Option<TraceEntry> {
        self.memoize(Item::Entry(number(self.road.entries.len())))?;
        self.expect(op::MARK)?;
        self.road.pairs.clear();
        self.road.plan.clear();
        self.road.plan_shape = None;
        let mut entry = TraceEntry::default();
        let mut seen = 0u16;
        while !self.accept(op::SETITEMS) {
            let begin = self.pos;
            let (id, key) = self.entry_key()?;
            let (middle, n_put) = (self.pos, self.memo.next());
            let mut value = Item::Absent;
            if self.road.pairs.is_empty() && key != Key::Action {
                return None;
            }
            if key == Key::Other {
                if self.road.pairs.len() == MAX_KEYS || self.road.pairs.iter().any(|(other, _)| *other == id)
                {
                    return None;
                }
                value = self.shared_value()?;
            } else {
                // `addr` and `device_free` share a field, so one of the two may come.
                let bit = 1 << if key == Key::DeviceFree { Key::Addr as u8 } else { key as u8 };
                if seen & bit != 0 {
                    return None;
                }
                seen |= bit;
                self.field(key, &mut entry)?;
            }
            self.road.pairs.push((id, value));
            let memoized = if self.memo.next() == n_put { Item::Absent } else { value };
            let _ = self.plan(key, (begin, middle), memoized);
        }
        (!self.road.pairs.is_empty()).then_some(entry)
    }

    #[inline]
    fn field(&mut self, key: Key, entry: &mut TraceEntry) -> Option<()> {
        match key {
            Key::Action => {
                let id = self.text_item()?;
                entry.action = self.words.get(id).action;
                entry.action?;
            }
            Key::Addr | Key::DeviceFree => entry.address = self.unsigned()?,
            Key::Size => entry.size = self.unsigned()?,
            Key::Stream => entry.stream = self.int()?,
            Key::TimeUs => entry.time_us = self.int()?,
            Key::Frames => entry.stack = Some(self.frames()?),
            Key::Proto | Key::Other => return None,
        }
        Some(())
    }

    #[inline]
    fn entry_key(&mut self) -> Option<(TextId, Key)> {
        let id = self.text_item()?;
        Some((id, self.words.get(id).key))
    }

    #[inline]
    fn text_item(&mut self) -> Option<TextId> {
        let item = match self.next_byte()? {
            op::BINGET => {
                let index = self.next_byte()?;
                self.memo.get(u32::from(index))
            }
            op => self.fetched_or_written(op)?,
        };
        if let Item::Text(id) = item { Some(id) } else { None }
    }

    /// A value from the memo, or a text that stands here.
    fn fetched_or_written(&mut self, op: u8) -> Option<Item> {
        match op {
            op::BINGET => {
                let index = self.next_byte()?;
                Some(self.memo.get(u32::from(index)))
            }
            op::LONG_BINGET => {
                let index = u32::from_le_bytes(self.next_bytes()?);
                Some(self.memo.get(index))
            }
            op::SHORT_BINUNICODE | op::BINUNICODE => {
                let start = self.pos - 1;
                let n_bytes = self.text_length(op).ok()?;
                let item = Item::Text(self.text(n_bytes, start).ok()?);
                self.memoize(item)?;
                Some(item)
            }
            _ => None,
        }
    }

    /// The value of a key that has no field: small things, or what the memo holds.
    fn shared_value(&mut self) -> Option<Item> {
        match self.next_byte()? {
            op::NONE => Some(Item::None),
            op::NEWTRUE => Some(Item::Bool(true)),
            op::NEWFALSE => Some(Item::Bool(false)),
            op::BININT1 | op::BININT2 | op::BININT | op::LONG1 => {
                self.pos -= 1;
                let pair = (self.int()?, self.int()?);
                self.expect(op::TUPLE2)?;
                let item = self.nodes.pair(pair);
                self.memoize(item)?;
                Some(item)
            }
            op => match self.fetched_or_written(op)? {
                Item::Node(id) => {
                    self.nodes.get_mut(id).is_frozen = true;
                    Some(Item::Node(id))
                }
                item @ (Item::Text(_) | Item::None | Item::Bool(_) | Item::Pair(_)) => Some(item),
                _ => None,
            },
        }
    }

    #[inline]
    fn unsigned(&mut self) -> Option<u64> {
        u64::try_from(self.int()?).ok()
    }

    /// An integer without a finding.
    #[inline]
    fn int(&mut self) -> Option<i64> {
        match self.next_byte()? {
            op::LONG1 => {
                let n_bytes = usize::from(self.next_byte()?);
                if n_bytes > 8 {
                    return None;
                }
                let int = match self.bytes.get(self.pos..self.pos + 8) {
                    // The bytes in front of an integer's own are shifted out.
                    Some(eight) if n_bytes > 0 => {
                        let all = i64::from_le_bytes(eight.try_into().ok()?);
                        let n_spare = 64 - 8 * n_bytes;
                        all << n_spare >> n_spare
                    }
                    _ => long(self.bytes.get(self.pos..self.pos + n_bytes)?)?,
                };
                self.pos += n_bytes;
                (-MAX_SAFE..=MAX_SAFE).contains(&int).then_some(int)
            }
            op::BININT1 => Some(i64::from(self.next_byte()?)),
            op::BININT => Some(i64::from(i32::from_le_bytes(self.next_bytes()?))),
            op::BININT2 => Some(i64::from(u16::from_le_bytes(self.next_bytes()?))),
            _ => None,
        }
    }

    #[inline]
    fn frames(&mut self) -> Option<StackIndex> {
        let item = match self.next_byte()? {
            op::EMPTY_LIST => return self.frame_list(),
            op => self.fetched_or_written(op)?,
        };
        match item {
            Item::Stack(stack) => Some(stack),
            Item::Node(list) => self.stack_of(list),
            _ => None,
        }
    }

    /// A list of frames that are all in the memo; the list may go there too,
    /// before its frames (CPython) or after them (PyTorch's C++ writer).
    fn frame_list(&mut self) -> Option<StackIndex> {
        let number_at = self.pos;
        let is_early = self.skip_memo_opcode();
        let has_mark = self.accept(op::MARK);
        let from = self.pos;
        let mut n_frames = 0usize;
        loop {
            match self.bytes.get(self.pos)? {
                &op::BINGET
                    if has_mark || n_frames == 0 && self.bytes.get(self.pos + 2) == Some(&op::APPEND) =>
                {
                    self.pos += 2;
                }
                &op::LONG_BINGET
                    if has_mark || n_frames == 0 && self.bytes.get(self.pos + 5) == Some(&op::APPEND) =>
                {
                    self.pos += 5;
                }
                _ => break,
            }
            n_frames += 1;
        }
        let raw = self.bytes.get(from..self.pos)?;
        // First that the list ends here, so that no half of a list becomes a stack.
        match (has_mark, n_frames) {
            (true, _) => self.expect(op::APPENDS)?,
            (false, 1) => self.expect(op::APPEND)?,
            _ => {}
        }
        let stack = match self.road.stacks.get(raw) {
            Some(stack) => *stack,
            None => self.stack_of_numbers(raw)?,
        };
        let end = self.pos;
        if is_early {
            self.pos = number_at;
        }
        self.memoize(Item::Stack(stack))?;
        self.pos = if is_early { end } else { self.pos };
        Some(stack)
    }

    /// The stack of frames given as opcodes that fetch them.
    fn stack_of_numbers(&mut self, raw: &'a [u8]) -> Option<StackIndex> {
        let mut frames = Vec::new();
        let mut rest = raw;
        while let Some((op, after)) = rest.split_first() {
            let (index, after) = match *op {
                op::BINGET => after.split_first().map(|(byte, after)| (u32::from(*byte), after))?,
                _ => after.split_first_chunk().map(|(bytes, after)| (u32::from_le_bytes(*bytes), after))?,
            };
            let Item::Node(dict) = self.memo.get(index) else { return None };
            frames.push(self.frame_of(dict)?);
            rest = after;
        }
        let stack = self.snapshot.stacks.intern_stack(&frames);
        self.road.stacks.insert(raw, stack);
        Some(stack)
    }

    /// Puts an item in the memo if the next opcode says so.
    #[inline]
    fn memoize(&mut self, item: Item) -> Option<()> {
        let op = *self.bytes.get(self.pos)?;
        let index = match op {
            op::MEMOIZE => {
                self.pos += 1;
                self.memo.next()
            }
            op::BINPUT => {
                self.pos += 1;
                u32::from(self.next_byte()?)
            }
            op::LONG_BINPUT => {
                self.pos += 1;
                u32::from_le_bytes(self.next_bytes()?)
            }
            _ => return Some(()),
        };
        // Files that mix the two go where that is told.
        if op == op::MEMOIZE {
            self.memoizes = true;
        } else {
            self.puts = true;
        }
        if self.memoizes && self.puts {
            return None;
        }
        self.memo.attempt(index, item)
    }

    fn skip_memo_opcode(&mut self) -> bool {
        let n_bytes = match self.bytes.get(self.pos) {
            Some(&op::MEMOIZE) => 1,
            Some(&op::BINPUT) => 2,
            Some(&op::LONG_BINPUT) => 5,
            _ => 0,
        };
        self.pos += n_bytes;
        n_bytes > 0
    }

    /// The number of the keys just decoded.
    fn entry_shape(&mut self) -> Step<ShapeId> {
        match self.road.shapes.get(&*self.road.pairs) {
            Some(shape) => Ok(*shape),
            None => self.new_shape(),
        }
    }

    fn new_shape(&mut self) -> Step<ShapeId> {
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

    #[inline]
    fn next_byte(&mut self) -> Option<u8> {
        let byte = *self.bytes.get(self.pos)?;
        self.pos += 1;
        Some(byte)
    }

    #[inline]
    fn next_bytes<const N: usize>(&mut self) -> Option<[u8; N]> {
        let array = *self.bytes.get(self.pos..)?.first_chunk()?;
        self.pos += N;
        Some(array)
    }

    #[inline]
    fn accept(&mut self, op: u8) -> bool {
        let is_next = self.bytes.get(self.pos) == Some(&op);
        self.pos += usize::from(is_next);
        is_next
    }

    #[inline]
    fn expect(&mut self, op: u8) -> Option<()> {
        self.accept(op).then_some(())
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
