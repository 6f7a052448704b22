//! The operand stack: values for later opcodes, and the marks between them.

#![forbid(unsafe_code)]

use super::node::Item;
use crate::words::{Error, Result};

/// The capacity, in items, that remains when most items were taken.
const MAX_IDLE: usize = 1 << 16;

/// The values of a pickle's stack machine.
#[derive(Debug, Default)]
pub(super) struct OperandStack {
    items: Vec<Item>,
    /// The number of items below each mark.
    marks: Vec<usize>,
}

impl OperandStack {
    /// Returns the bytes of memory that it takes.
    pub(super) fn n_bytes(&self) -> usize {
        self.items.len() * size_of::<Item>() + self.marks.len() * size_of::<usize>()
    }

    #[inline(always)]
    pub(super) fn push(&mut self, item: Item) {
        self.items.push(item);
    }

    pub(super) fn push_mark(&mut self) {
        self.marks.push(self.items.len());
    }

    pub(super) fn len(&self) -> usize {
        self.items.len()
    }

    /// Returns the items from an index on.
    pub(super) fn from(&self, index: usize) -> &[Item] {
        &self.items[index..]
    }

    pub(super) fn get(&self, index: usize) -> Item {
        self.items[index]
    }

    pub(super) fn insert(&mut self, index: usize, item: Item) {
        self.items.insert(index, item);
    }

    pub(super) fn truncate(&mut self, len: usize) {
        self.items.truncate(len);
        if self.items.capacity() > MAX_IDLE && len < self.items.capacity() / 4 {
            self.items.shrink_to(MAX_IDLE);
        }
    }

    pub(super) fn replace_top(&mut self, item: Item) {
        if let Some(top) = self.items.last_mut() {
            *top = item;
        }
    }

    /// Removes the top item.
    pub(super) fn pop(&mut self, start: usize) -> Result<Item> {
        if self.items.len() <= self.floor() {
            return Err(too_few(start));
        }
        self.items.pop().ok_or_else(|| too_few(start))
    }

    /// Removes the last mark; returns the index of the first item above it.
    pub(super) fn pop_mark(&mut self, start: usize) -> Result<usize> {
        self.marks
            .pop()
            .ok_or_else(|| Error::malformed(start as u64, "the mark that this opcode needs is missing"))
    }

    /// Returns the index of the first of the topmost `n` items, with `n_below` more items below them and above the
    /// last mark.
    pub(super) fn index_of(&self, n: usize, n_below: usize, start: usize) -> Result<usize> {
        let index = self.items.len().checked_sub(n);
        index.filter(|index| *index >= self.floor() + n_below).ok_or_else(|| too_few(start))
    }

    /// The lowest index that an opcode without a mark may use.
    fn floor(&self) -> usize {
        self.marks.last().copied().unwrap_or(0)
    }
}

#[cold]
fn too_few(start: usize) -> Error {
    Error::malformed(start as u64, "the values that this opcode needs are missing")
}
