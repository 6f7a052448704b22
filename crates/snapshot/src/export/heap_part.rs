//! What one device of one process holds, by stack.

use crate::model::{Snapshot, StackIndex};

/// What one device of one process holds.
#[derive(Clone, Debug)]
pub struct HeapPart<'a> {
    /// The snapshot with the stacks.
    pub snapshot: &'a Snapshot,
    /// The blocks and the bytes of each stack.
    pub held: Vec<(Option<StackIndex>, u64, u64)>,
    /// The key and the text of each label that its samples have, such as the number of the process.
    pub labels: Vec<(&'static str, String)>,
}
