//! Recognises lists of frames on the fast path, by the opcodes that fetch their frames.

#![forbid(unsafe_code)]

use super::{cursor::Cursor, interner::Interner, node::Item, parser::Parser};
use crate::{model::StackIndex, pickle::opcode, words::SeededMap};

/// The number of bytes of a list that select among the recent ones: six frames.
const BEGINNING: usize = 32;

/// The stacks of the lists read so far. A list is the bytes of the opcodes that fetch its frames from the memo.
#[derive(Debug, Default)]
pub(super) struct StackLists<'a> {
    known: SeededMap<&'a [u8], StackIndex>,
    /// The last list for each beginning: two comparisons cost less than finding a list's end and hashing it.
    recent: SeededMap<[u8; BEGINNING], (&'a [u8], StackIndex)>,
}

impl<'a> StackLists<'a> {
    /// Forgets everything: a number of the memo changed its meaning.
    pub(super) fn clear(&mut self) {
        self.known.clear();
        self.recent.clear();
    }

    /// Reads the list that starts before the next byte, if all its frames are in the memo: blocks and segments have
    /// such lists too. Returns whether it did.
    pub(super) fn read(&mut self, parser: &mut Parser<'a>, interner: &mut Interner) -> bool {
        let mut c = parser.input.cursor();
        c.skip_memo_opcode();
        let has_frames = c.accept(opcode::MARK) && n_bytes_of_get(c.bytes.get(c.pos)).is_some();
        if !has_frames {
            return false;
        }
        parser.memo.begin();
        c = parser.input.cursor();
        match self.list(&mut c, parser, interner) {
            // A mark may begin the list's next thousand.
            Some(stack) if c.bytes.get(c.pos) != Some(&opcode::MARK) => {
                parser.operands.push(Item::Stack(stack));
                parser.input.move_to(c.pos);
                true
            }
            _ => {
                parser.memo.rewind();
                false
            }
        }
    }

    /// Reads the value of `frames`: a list, or one from the memo.
    #[inline(always)]
    pub(super) fn field(
        &mut self,
        c: &mut Cursor<'a>,
        parser: &mut Parser<'a>,
        interner: &mut Interner,
    ) -> Option<StackIndex> {
        let index = match c.next_byte()? {
            opcode::EMPTY_LIST => return self.list(c, parser, interner),
            opcode::BINGET => u32::from(c.next_byte()?),
            opcode::LONG_BINGET => u32::from_le_bytes(c.next_bytes()?),
            _ => return None,
        };
        match parser.memo.get(index) {
            Item::Stack(stack) => Some(stack),
            item @ Item::Node(list) => {
                parser.nodes.mark_fetched(item);
                let stack = interner.stack(list, parser)?;
                parser.memo.refine(index, Item::Stack(stack));
                Some(stack)
            }
            _ => None,
        }
    }

    /// Reads a list of frames that are all in the memo. The list may be memoized too, before its frames (CPython) or
    /// after them (PyTorch's C++ writer).
    fn list(
        &mut self,
        c: &mut Cursor<'a>,
        parser: &mut Parser<'a>,
        interner: &mut Interner,
    ) -> Option<StackIndex> {
        let memo_opcode_at = c.pos;
        let is_early = c.skip_memo_opcode();
        let has_mark = c.accept(opcode::MARK);
        let stack = match self.recent_list(c, has_mark) {
            Some(stack) => stack,
            None => self.scanned_list(c, has_mark, parser, interner)?,
        };
        let end = c.pos;
        if is_early {
            c.pos = memo_opcode_at;
        }
        parser.memoize(c, Item::Stack(stack))?;
        c.pos = if is_early { end } else { c.pos };
        Some(stack)
    }

    /// Returns the list's stack if a recent list has the same bytes to its end.
    fn recent_list(&mut self, c: &mut Cursor<'a>, has_mark: bool) -> Option<StackIndex> {
        let rest = c.bytes.get(c.pos..).filter(|_| has_mark)?;
        let (list, stack) = self.recent.get(rest.first_chunk::<BEGINNING>()?)?;
        if rest.get(..list.len())? != *list || rest.get(list.len()) != Some(&opcode::APPENDS) {
            return None;
        }
        c.pos += list.len() + 1;
        Some(*stack)
    }

    /// Finds the list's end and returns its stack.
    fn scanned_list(
        &mut self,
        c: &mut Cursor<'a>,
        has_mark: bool,
        parser: &mut Parser<'a>,
        interner: &mut Interner,
    ) -> Option<StackIndex> {
        let from = c.pos;
        let mut n_frames = 0usize;
        while let Some(n_bytes) = n_bytes_of_get(c.bytes.get(c.pos)) {
            // Without a mark, a list has at most one frame; what is fetched next may be a key.
            let is_one = n_frames == 0 && c.bytes.get(c.pos + n_bytes) == Some(&opcode::APPEND);
            if !has_mark && !is_one {
                break;
            }
            c.pos += n_bytes;
            n_frames += 1;
        }
        let list = c.bytes.get(from..c.pos)?;
        // The end is checked first, so that half a list never becomes a stack.
        match (has_mark, n_frames) {
            (true, _) => c.expect(opcode::APPENDS)?,
            (false, 1) => c.expect(opcode::APPEND)?,
            _ => {}
        }
        let stack = match self.known.get(list) {
            Some(stack) => *stack,
            None => self.new_stack(list, parser, interner)?,
        };
        if let Some(beginning) = list.first_chunk() {
            self.recent.insert(*beginning, (list, stack));
        }
        Some(stack)
    }

    /// Interns the stack of a list that was not read before.
    fn new_stack(
        &mut self,
        list: &'a [u8],
        parser: &mut Parser<'a>,
        interner: &mut Interner,
    ) -> Option<StackIndex> {
        if parser.memo.is_closed() {
            return None;
        }
        let mut frames = Vec::new();
        let mut rest = list;
        while let Some((op, after)) = rest.split_first() {
            let (index, after) = match *op {
                opcode::BINGET => after.split_first().map(|(byte, after)| (u32::from(*byte), after))?,
                _ => after.split_first_chunk().map(|(bytes, after)| (u32::from_le_bytes(*bytes), after))?,
            };
            let item = parser.memo.get(index);
            parser.nodes.mark_fetched(item);
            frames.push(interner.frame(item, parser)?);
            rest = after;
        }
        let stack = interner.stacks.intern_stack(&frames);
        self.known.insert(list, stack);
        Some(stack)
    }
}

fn n_bytes_of_get(op: Option<&u8>) -> Option<usize> {
    match *op? {
        opcode::BINGET => Some(2),
        opcode::LONG_BINGET => Some(5),
        _ => None,
    }
}
