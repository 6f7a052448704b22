//! What is held at the end and was allocated long before.

use memreel_snapshot::analysis::{Group, Rest, SiteList};
use serde::Serialize;

use crate::{Question, Refusal, Subject};

/// Which blocks are held at the end and were allocated at least a number of events before it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OlderQuestion {
    /// The number of events.
    pub age: usize,
    /// The most stacks that are listed.
    pub n: usize,
}

impl Default for OlderQuestion {
    fn default() -> OlderQuestion {
        OlderQuestion { age: 0, n: 10 }
    }
}

/// The answer to [`OlderQuestion`].
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Older<'s> {
    /// The requested bytes of these blocks.
    pub bytes: u64,
    /// The number of these blocks.
    pub blocks: usize,
    /// The requested bytes of blocks from before the history, which may be that old; 0 if the history is long enough.
    pub perhaps_bytes: u64,
    /// The number of those blocks.
    pub perhaps_blocks: usize,
    /// The stacks that allocated the blocks, the largest first.
    pub groups: SiteList<'s, Group>,
    /// The stacks that are not listed.
    pub rest: Rest,
    /// What limits the figures, one sentence each; empty if nothing does.
    pub warnings: Vec<String>,
}

impl Question for OlderQuestion {
    type Answer<'s> = Older<'s>;

    fn ask<'s>(&self, subject: &'s Subject<'_>) -> Result<Older<'s>, Refusal> {
        let history = subject.history();
        let groups = SiteList::new(history.older_than(self.age), self.n, history.shown_frames());
        let (bytes, blocks) = Group::sum(groups.all());
        let is_known = self.age <= history.entries().len();
        let (perhaps_bytes, perhaps_blocks) =
            if is_known { (0, 0) } else { Group::sum(&history.from_before()) };
        Ok(Older {
            bytes,
            blocks,
            perhaps_bytes,
            perhaps_blocks,
            rest: groups.rest(|group| group.bytes),
            groups,
            warnings: subject.warnings(),
        })
    }
}
