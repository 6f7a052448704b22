//! Lists of frames on the fast road: known by the numbers of their frames, as these stand in the file.

#![forbid(unsafe_code)]

use super::{cursor::Cursor, node::Item, parser::Machine};
use crate::{pickle::opcode, snapshot::StackIndex};

/// Bytes of a list of memo numbers that choose among the recent ones: six frames.
pub(super) const BEGINNING: usize = 32;

impl<'a> Machine<'a> {
    /// Decodes the list that begins before `pos`, if it is of frames that are
    /// all known: blocks and segments have such lists too.
    pub(super) fn known_stack(&mut self) -> bool {
        let mut c = Cursor { bytes: self.bytes, pos: self.pos };
        c.skip_memo_opcode();
        let has_frames = c.accept(opcode::MARK) && n_bytes_of_get(c.bytes.get(c.pos)).is_some();
        if !has_frames {
            return false;
        }
        self.memo.begin();
        c.pos = self.pos;
        match self.frame_list(&mut c) {
            // A mark may begin the list's next thousand.
            Some(stack) if c.bytes.get(c.pos) != Some(&opcode::MARK) => {
                self.stack.push(Item::Stack(stack));
                self.pos = c.pos;
                true
            }
            _ => {
                self.memo.rewind();
                false
            }
        }
    }

    #[inline(always)]
    pub(super) fn frames(&mut self, c: &mut Cursor<'a>) -> Option<StackIndex> {
        let index = match c.next_byte()? {
            opcode::EMPTY_LIST => return self.frame_list(c),
            opcode::BINGET => u32::from(c.next_byte()?),
            opcode::LONG_BINGET => u32::from_le_bytes(c.next_bytes()?),
            _ => return None,
        };
        match self.memo.get(index) {
            Item::Stack(stack) => Some(stack),
            Item::Node(list) => {
                let stack = self.stack_of(list)?;
                self.memo.refine(index, Item::Stack(stack));
                Some(stack)
            }
            _ => None,
        }
    }

    /// A list of frames that are all in the memo; the list may go there too,
    /// before its frames (CPython) or after them (PyTorch's C++ writer).
    pub(super) fn frame_list(&mut self, c: &mut Cursor<'a>) -> Option<StackIndex> {
        let number_at = c.pos;
        let is_early = c.skip_memo_opcode();
        let has_mark = c.accept(opcode::MARK);
        let stack = match self.recent_list(c, has_mark) {
            Some(stack) => stack,
            None => self.scanned_list(c, has_mark)?,
        };
        let end = c.pos;
        if is_early {
            c.pos = number_at;
        }
        self.memoize(c, Item::Stack(stack))?;
        c.pos = if is_early { end } else { c.pos };
        Some(stack)
    }

    /// The list's stack, if one that begins like it was met before and goes on like it to its end.
    pub(super) fn recent_list(&mut self, c: &mut Cursor<'a>, has_mark: bool) -> Option<StackIndex> {
        let rest = c.bytes.get(c.pos..).filter(|_| has_mark)?;
        let (list, stack) = self.road.recent.get(rest.first_chunk::<BEGINNING>()?)?;
        if rest.get(..list.len())? != *list || rest.get(list.len()) != Some(&opcode::APPENDS) {
            return None;
        }
        c.pos += list.len() + 1;
        Some(*stack)
    }

    pub(super) fn scanned_list(&mut self, c: &mut Cursor<'a>, has_mark: bool) -> Option<StackIndex> {
        let from = c.pos;
        let mut n_frames = 0usize;
        while let Some(n_bytes) = n_bytes_of_get(c.bytes.get(c.pos)) {
            // Without a mark, a list has one frame or none; what is fetched next may be a key.
            let is_one = n_frames == 0 && c.bytes.get(c.pos + n_bytes) == Some(&opcode::APPEND);
            if !has_mark && !is_one {
                break;
            }
            c.pos += n_bytes;
            n_frames += 1;
        }
        let raw = c.bytes.get(from..c.pos)?;
        // First that the list ends here, so that no half of a list becomes a stack.
        match (has_mark, n_frames) {
            (true, _) => c.expect(opcode::APPENDS)?,
            (false, 1) => c.expect(opcode::APPEND)?,
            _ => {}
        }
        let stack = match self.road.stacks.get(raw) {
            Some(stack) => *stack,
            None => self.stack_of_numbers(raw)?,
        };
        if let Some(beginning) = raw.first_chunk() {
            self.road.recent.insert(*beginning, (raw, stack));
        }
        Some(stack)
    }

    /// The stack of frames given as opcodes that fetch them.
    pub(super) fn stack_of_numbers(&mut self, raw: &'a [u8]) -> Option<StackIndex> {
        if self.memo.is_closed() {
            return None;
        }
        let mut frames = Vec::new();
        let mut rest = raw;
        while let Some((op, after)) = rest.split_first() {
            let (index, after) = match *op {
                opcode::BINGET => after.split_first().map(|(byte, after)| (u32::from(*byte), after))?,
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
}

fn n_bytes_of_get(op: Option<&u8>) -> Option<usize> {
    match *op? {
        opcode::BINGET => Some(2),
        opcode::LONG_BINGET => Some(5),
        _ => None,
    }
}
