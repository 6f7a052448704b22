//! The tree of the calls that allocated.

use memreel_snapshot::{Snapshot, analysis::Branch, model::Frame};
use serde::{Serialize, Serializer};

/// The tree of the calls that allocated. It serialises as an array of [`Call`]s.
#[derive(Clone, Debug)]
pub struct CallTree<'s> {
    branches: Vec<Branch>,
    snapshot: &'s Snapshot,
}

/// A line of the tree.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[non_exhaustive]
pub struct Call<'s> {
    /// The number of lines above it that lead to it. A call that accounts for all bytes of its caller has the depth of the
    /// caller.
    pub depth: usize,
    /// The call; null for blocks without a stack.
    pub frame: Option<&'s Frame>,
    /// The requested bytes of the blocks that it allocated, directly or through its callees.
    pub bytes: u64,
    /// The number of these blocks.
    pub blocks: usize,
    /// The number of further calls of its longest stack that are too deep for the tree; absent if there are none.
    #[serde(skip_serializing_if = "is_zero")]
    pub calls_left_out: usize,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(n: &usize) -> bool {
    *n == 0
}

impl<'s> CallTree<'s> {
    pub(super) fn new(branches: Vec<Branch>, snapshot: &'s Snapshot) -> CallTree<'s> {
        CallTree { branches, snapshot }
    }

    /// Returns the branches of the tree, whose frames are those of the snapshot.
    #[must_use]
    pub fn branches(&self) -> &[Branch] {
        &self.branches
    }

    /// Returns the lines of the tree.
    pub fn calls(&self) -> impl ExactSizeIterator<Item = Call<'s>> + '_ {
        self.branches.iter().map(|branch| Call {
            depth: branch.depth,
            frame: branch.frame.map(|frame| self.snapshot.stacks.frame(frame)),
            bytes: branch.bytes,
            blocks: branch.n_blocks,
            calls_left_out: branch.n_left_out,
        })
    }
}

impl Serialize for CallTree<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.calls())
    }
}
