//! What holds the memory at a moment.

mod allocated;
mod new_blocks;
mod tree;

use memreel_snapshot::{
    analysis::{By, DeviceHistory, EarlierPeak, Group, Rest, SiteList, Totals},
    history::Trust,
};
use serde::Serialize;

use crate::{At, Question, Refusal, Subject};

pub use allocated::{Allocated, AllocatedQuestion};
pub use new_blocks::{NewBlocksAt, NewBlocksQuestion};
pub use tree::{Call, CallTree};

/// What holds the memory at a moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TopQuestion {
    /// The moment.
    pub at: At,
    /// The property by which blocks are grouped.
    pub by: By,
    /// Whether the answer is the tree of calls in place of groups.
    pub is_tree: bool,
    /// The most groups that are listed.
    pub n: usize,
}

impl Default for TopQuestion {
    fn default() -> TopQuestion {
        TopQuestion { at: At::Peak, by: By::Stack, is_tree: false, n: 10 }
    }
}

/// The answer to [`TopQuestion`].
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct Top<'s> {
    /// The figures of the moment.
    #[serde(flatten)]
    pub totals: Totals,
    /// Whether the figures of every recorded moment are exact.
    pub is_exact: bool,
    /// Whether, in addition, the history is recorded from its beginning.
    pub is_whole: bool,
    /// Whether the moment is the peak of the whole run, including events that the ring lost. If it is among these, `event`
    /// is null, and `reserved_bytes` are those of the blocks.
    pub is_of_run: bool,
    /// What holds the memory.
    #[serde(flatten)]
    pub holders: Holders<'s>,
    /// What limits the figures, one sentence each; empty if nothing does.
    pub warnings: Vec<String>,
    /// The peak, if its events were lost. Not in JSON.
    #[serde(skip)]
    pub earlier: Option<&'s EarlierPeak>,
    /// A history with the stacks of that peak. Not in JSON.
    #[serde(skip)]
    pub earlier_stacks: Option<DeviceHistory<'s>>,
}

/// What holds the memory: groups of blocks, or the calls that allocated them.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
#[non_exhaustive]
pub enum Holders<'s> {
    /// Groups of blocks.
    Groups {
        /// The groups, the largest first.
        groups: SiteList<'s, Group>,
        /// The groups that are not listed.
        rest: Rest,
    },
    /// The tree of calls.
    Tree {
        /// The calls from the outermost inward, without branches below 1 %.
        tree: CallTree<'s>,
    },
}

impl<'s> Holders<'s> {
    fn groups(groups: Vec<Group>, n: usize, history: &DeviceHistory<'s>) -> Holders<'s> {
        let groups = SiteList::new(groups, n, history.shown_frames());
        Holders::Groups { rest: groups.rest(|group| group.bytes), groups }
    }
}

impl Question for TopQuestion {
    type Answer<'s> = Top<'s>;

    fn ask<'s>(&self, subject: &'s Subject<'_>) -> Result<Top<'s>, Refusal> {
        let history: &'s DeviceHistory<'s> = subject.history();
        let earlier = history.earlier_peak().filter(|_| self.at == At::Peak);
        if let Some(top) = earlier.and_then(|peak| self.before_the_events(subject, peak)) {
            return Ok(top);
        }
        let totals = history.totals_at(self.at.moment(history)?);
        let holders = if self.is_tree {
            let branches = history.tree(totals.moment, totals.active_bytes / 100);
            Holders::Tree { tree: CallTree::new(branches, history.snapshot()) }
        } else {
            Holders::groups(history.top(totals.moment, self.by), self.n, history)
        };
        Ok(self.top(subject, totals, holders))
    }
}

impl TopQuestion {
    /// Answers for a peak whose events were lost; `None` if what it groups by is not known.
    fn before_the_events<'s>(&self, subject: &'s Subject<'_>, peak: &'s EarlierPeak) -> Option<Top<'s>> {
        let (stacks, totals) = (peak.stacks(), peak.totals());
        let holders = if self.is_tree {
            let branches = peak.tree(&stacks, totals.active_bytes / 100);
            Holders::Tree { tree: CallTree::new(branches, stacks.snapshot()) }
        } else {
            Holders::groups(peak.top(&stacks, self.by)?, self.n, &stacks)
        };
        let top = self.top(subject, totals, holders);
        Some(Top { earlier: Some(peak), earlier_stacks: Some(stacks), ..top })
    }

    fn top<'s>(&self, subject: &'s Subject<'_>, totals: Totals, holders: Holders<'s>) -> Top<'s> {
        let history = subject.history();
        let trust = history.trust();
        Top {
            totals,
            is_exact: trust.is_exact(),
            is_whole: trust.is_whole(),
            is_of_run: self.is_of_run(history, &trust, &totals),
            holders,
            warnings: subject.warnings(),
            earlier: None,
            earlier_stacks: None,
        }
    }

    fn is_of_run(&self, history: &DeviceHistory<'_>, trust: &Trust, totals: &Totals) -> bool {
        // A peak of groups that the sums do not have is that of the events.
        let is_lost = history.earlier_peak().is_some_and(|peak| totals.active_bytes < peak.bytes);
        self.at == At::Peak && trust.knows_peak() && !is_lost
    }
}
