//! What is allocated between the ends of two scopes and still held.

use memreel_snapshot::{
    analysis::{Group, Rest, SiteList},
    history::Moment,
};
use serde::Serialize;

use crate::{Question, Refusal, Subject};

/// Which blocks were allocated between the ends of two scopes, and are held at the second.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BetweenQuestion<'q> {
    /// The scopes, such as `step#1` and `step#2`.
    pub scopes: [&'q str; 2],
    /// The most stacks that are listed.
    pub n: usize,
}

/// The answer to [`BetweenQuestion`].
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Between<'s> {
    /// The requested bytes of these blocks.
    pub bytes: u64,
    /// The number of these blocks.
    pub blocks: usize,
    /// The stacks that allocated the blocks, the largest first.
    pub groups: SiteList<'s, Group>,
    /// The stacks that are not listed.
    pub rest: Rest,
    /// What limits the figures, one sentence each; empty if nothing does.
    pub warnings: Vec<String>,
    /// The moments at which the scopes end. Not in JSON.
    #[serde(skip)]
    pub ends: [Moment; 2],
}

impl Question for BetweenQuestion<'_> {
    type Answer<'s> = Between<'s>;

    fn ask<'s>(&self, subject: &'s Subject<'_>) -> Result<Between<'s>, Refusal> {
        let history = subject.history();
        let [first, second] = self.scopes;
        if first == second {
            return Err(Refusal::SameScope { scope: first.to_owned() });
        }
        let (device, scopes) = (history.device(), history.scopes());
        let end = |name: &str| scopes.end_of(name).map_err(|error| Refusal::Scope { device, error });
        let ends = [end(first)?, end(second)?];
        let groups = history.grown_between(ends[0], ends[1]).ok_or(Refusal::Backwards { device, ends })?;
        let groups = SiteList::new(groups, self.n, history.shown_frames());
        let (bytes, blocks) = Group::sum(groups.all());
        Ok(Between {
            bytes,
            blocks,
            rest: groups.rest(|group| group.bytes),
            groups,
            warnings: subject.warnings(),
            ends,
        })
    }
}
