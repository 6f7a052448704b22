//! The value of a record's field, of any type, without a copy.

use super::{records::Block, stack_table::StackIndex, value::Text};
use crate::words::{Action, BlockState, PoolId, PoolKind};

/// The value of a record's field.
#[derive(Clone, Copy, PartialEq, Debug)]
#[non_exhaustive]
pub enum FieldRef<'a> {
    /// An address, a size or a line.
    Uint(u64),
    /// A stream, a device or a time.
    Int(i64),
    /// A truth value.
    Bool(bool),
    /// One of the format's own words.
    Word(Word),
    /// A private pool: a tuple of two integers.
    Pool(PoolId),
    /// A text.
    Text(&'a Text),
    /// A list of frames.
    Stack(Option<StackIndex>),
    /// The blocks of a segment.
    Blocks(&'a [Block]),
}

/// A word of the format; `None` for a text that is none of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Word {
    /// What an entry records.
    Action(Option<Action>),
    /// The state of a block.
    State(Option<BlockState>),
    /// `"small"` or `"large"`.
    Kind(Option<PoolKind>),
}

impl Word {
    /// Returns the text in files; empty if it is none of the format's words.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Word::Action(action) => action.map_or("", Action::name),
            Word::State(state) => state.map_or("", BlockState::name),
            Word::Kind(kind) => kind.map_or("", PoolKind::name),
        }
    }
}
