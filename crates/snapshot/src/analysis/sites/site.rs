//! A site: the property that the blocks of a group share, such as the stack that allocated them.

use std::fmt;

use serde::{Serialize, Serializer};

use crate::{
    history::{Life, ScopePath},
    model::{StackIndex, StackTable, Text},
    words::{PoolId, StreamId},
};

/// The property that the blocks of a group share.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
pub enum Site {
    /// The stack of the allocation; of several stacks with the same identifying frames, the one with the
    /// most bytes.
    Stack(StackIndex),
    /// The requested size, for blocks without a stack.
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
    /// A line of a file.
    Line {
        /// The path of the file.
        filename: Text,
        /// The number of the line.
        line: u64,
    },
    /// A stream.
    Stream(StreamId),
    /// A pool; `None` for blocks whose pool the file does not name.
    Pool(Option<PoolId>),
    /// A scope; empty for blocks outside of all scopes.
    Scope(ScopePath),
    /// The name of a block; all names if it has several.
    Name(BlockNames),
    /// The library or the program that requested device memory (docs/owners.md).
    Owner(Text),
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

/// The names of a block, each once; they display with commas between them.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct BlockNames(Box<[Text]>);

impl BlockNames {
    pub(super) fn new<'t>(names: impl Iterator<Item = &'t Text>) -> BlockNames {
        BlockNames(names.cloned().collect())
    }

    /// Returns the names, in the order in which the block got them.
    #[must_use]
    pub fn names(&self) -> &[Text] {
        &self.0
    }
}

impl<'a> FromIterator<&'a str> for BlockNames {
    fn from_iter<I: IntoIterator<Item = &'a str>>(names: I) -> BlockNames {
        BlockNames(names.into_iter().map(Text::from).collect())
    }
}

impl fmt::Display for BlockNames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (nth, name) in self.0.iter().enumerate() {
            f.write_str(if nth > 0 { ", " } else { "" })?;
            f.write_str(name)?;
        }
        Ok(())
    }
}

impl Serialize for BlockNames {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
