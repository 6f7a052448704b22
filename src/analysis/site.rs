//! A site: the property that the blocks of a group share, such as the stack that allocated them.

use crate::{
    history::Life,
    snapshot::{StackIndex, StackTable, Text},
};

/// The property that the blocks of a group share.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
pub enum Site {
    /// The stack of the allocation; of several stacks with the same identifying frames, the one with the
    /// most bytes.
    Stack(StackIndex),
    /// The requested size, of blocks without a stack.
    Size(u64),
    /// A function.
    Function {
        /// Its name.
        name: Text,
        /// The path of its source file.
        filename: Text,
    },
    /// A file.
    File(Text),
    /// A scope; empty for blocks outside of all scopes.
    Scope(String),
    /// The name of a block; of a block with several names, all of them.
    Name(String),
    /// Blocks without a stack, among functions.
    NoStack,
    /// Blocks without a stack, among files.
    NoFile,
    /// Blocks from before the history, among scopes.
    Before,
    /// Blocks without a name, among names.
    NoName,
}

impl Site {
    /// Returns the stack of a life, or its size if it has none.
    #[must_use]
    pub fn from_life(life: &Life) -> Site {
        match life.stack.filter(|stack| *stack != StackTable::EMPTY) {
            Some(stack) => Site::Stack(stack),
            None => Site::Size(life.requested_bytes),
        }
    }
}
