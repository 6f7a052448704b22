//! What is allocated after a time, counted in the order of the program's requests.

use memreel_snapshot::{
    analysis::{By, Group, NewBlocks, Rest, SiteList},
    history::Moment,
};
use serde::Serialize;

use crate::{At, Instant, Question, Refusal, Subject};

/// What is allocated after a time, and held at a moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NewBlocksQuestion {
    /// The time after which blocks count; all count if it is `None`.
    pub since: Option<Instant>,
    /// The moment of the groups; [`At::Peak`] is the peak of the new blocks.
    pub at: At,
    /// The property by which blocks are grouped, except [`By::Owner`].
    pub by: By,
    /// The most groups that are listed.
    pub n: usize,
}

impl Default for NewBlocksQuestion {
    fn default() -> NewBlocksQuestion {
        NewBlocksQuestion { since: None, at: At::Peak, by: By::Stack, n: 10 }
    }
}

/// The answer to [`NewBlocksQuestion`].
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct NewBlocksAt<'s> {
    /// The figures of the new blocks.
    #[serde(flatten)]
    pub new: NewBlocks,
    /// The moment of the groups, after this event; null before the first one.
    pub event: Moment,
    /// The requested bytes of the new blocks that the program holds then.
    pub allocated_bytes: u64,
    /// The number of these blocks.
    pub blocks: usize,
    /// Whether the figures of every recorded moment are exact.
    pub is_exact: bool,
    /// The groups, the largest first.
    pub groups: SiteList<'s, Group>,
    /// The groups that are not listed.
    pub rest: Rest,
    /// What limits the figures, one sentence each; empty if nothing does.
    pub warnings: Vec<String>,
}

impl Question for NewBlocksQuestion {
    type Answer<'s> = NewBlocksAt<'s>;

    fn ask<'s>(&self, subject: &'s Subject<'_>) -> Result<NewBlocksAt<'s>, Refusal> {
        let history = subject.history();
        let since = self.since.map(|since| history.moment_before(since.in_snapshot(history.snapshot())));
        let since = since.unwrap_or(Moment::START);
        let new = history.new_blocks(since);
        let event = if self.at == At::Peak { new.peak } else { self.at.moment(history)? };
        let groups = history.new_at(since, event, self.by).ok_or(Refusal::NewBlocksHaveNoOwners)?;
        let groups = SiteList::new(groups, self.n, history.shown_frames());
        let (allocated_bytes, blocks) = Group::sum(groups.all());
        Ok(NewBlocksAt {
            new,
            event,
            allocated_bytes,
            blocks,
            is_exact: history.trust().is_exact(),
            rest: groups.rest(|group| group.bytes),
            groups,
            warnings: subject.warnings(),
        })
    }
}
