//! The frames of one snapshot and its stacks, each stored once.

use std::sync::Arc;

use indexmap::IndexSet;

use super::{shape::ShapeId, value::Text};
use crate::words::Seeded;

/// A call in a stack (docs/snapshot-format.md 1.4).
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Frame {
    /// The function.
    pub name: Text,
    /// The full path of its source, `"??"` when unknown.
    pub filename: Text,
    /// The line of the call, 0 when unknown.
    pub line: u64,
    /// Its keys, and what else its dictionary held.
    pub shape: ShapeId,
}

impl Frame {
    /// Returns whether another frame has the same name, file and line, so that both are one call to a reader.
    #[must_use]
    pub fn is_same_call(&self, other: &Frame) -> bool {
        // Those of one file are often one text in memory.
        let is_same = |one: &Text, other: &Text| Arc::ptr_eq(one, other) || one == other;
        self.line == other.line
            && is_same(&self.name, &other.name)
            && is_same(&self.filename, &other.filename)
    }
}

/// The number of a frame in its snapshot.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct FrameIndex(pub(crate) u32);

impl FrameIndex {
    /// Returns the number as an index into arrays of as many elements as [`StackTable::all_frames`] has.
    #[must_use]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// The number of a stack in its snapshot.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct StackIndex(pub(crate) u32);

impl StackIndex {
    /// Returns the number as an index into arrays of [`StackTable::len`] elements.
    #[must_use]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// All frames and stacks of a snapshot; equal ones have equal numbers.
///
/// Stack 0 is the empty one.
#[derive(Clone, Debug)]
pub struct StackTable {
    frames: IndexSet<Frame, Seeded>,
    stacks: IndexSet<Box<[FrameIndex]>, Seeded>,
}

impl Default for StackTable {
    fn default() -> Self {
        let mut stacks = IndexSet::default();
        stacks.insert(Box::default());
        StackTable { frames: IndexSet::default(), stacks }
    }
}

impl StackTable {
    /// The stack without frames.
    pub const EMPTY: StackIndex = StackIndex(0);

    /// Adds a frame, unless it is known, and returns its number.
    ///
    /// # Panics
    /// Beyond 2^32 frames, which no file in memory can hold.
    pub fn intern_frame(&mut self, frame: Frame) -> FrameIndex {
        let (index, _) = self.frames.insert_full(frame);
        FrameIndex(u32::try_from(index).expect("fewer than 2^32 frames"))
    }

    /// Adds a stack, innermost frame first, unless it is known, and returns its number.
    ///
    /// # Panics
    /// Beyond 2^32 stacks, which no file in memory can hold.
    pub fn intern_stack(&mut self, frames: &[FrameIndex]) -> StackIndex {
        let index = match self.stacks.get_index_of(frames) {
            Some(index) => index,
            None => self.stacks.insert_full(frames.into()).0,
        };
        StackIndex(u32::try_from(index).expect("fewer than 2^32 stacks"))
    }

    /// Returns the frame of a number.
    ///
    /// # Panics
    /// If the number is from another snapshot.
    #[must_use]
    pub fn frame(&self, index: FrameIndex) -> &Frame {
        &self.frames[index.0 as usize]
    }

    /// Returns the numbers of a stack's frames, innermost first.
    ///
    /// # Panics
    /// If the number is from another snapshot.
    #[must_use]
    pub fn members(&self, stack: StackIndex) -> &[FrameIndex] {
        &self.stacks[stack.index()]
    }

    /// Returns a stack's frames, innermost first.
    pub fn frames(&self, stack: StackIndex) -> impl DoubleEndedIterator<Item = &Frame> + ExactSizeIterator {
        self.members(stack).iter().map(|index| self.frame(*index))
    }

    /// Returns every frame, by number.
    pub fn all_frames(&self) -> impl ExactSizeIterator<Item = &Frame> {
        self.frames.iter()
    }

    /// Returns the frames' numbers of every stack, by the stack's number.
    pub fn all_stacks(&self) -> impl ExactSizeIterator<Item = &[FrameIndex]> {
        self.stacks.iter().map(|stack| &**stack)
    }

    /// Returns how many stacks there are, the empty one included.
    #[must_use]
    pub fn len(&self) -> usize {
        self.stacks.len()
    }

    /// Returns whether the empty stack is the only one.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.stacks.len() == 1
    }
}
