//! What each stack allocated, freed or not.

use memreel_snapshot::analysis::{DeviceHistory, Group, Rest, SiteList};
use serde::Serialize;

use crate::{Question, Refusal, Subject};

/// What each stack allocated, freed or not: over the whole run if the recorder kept the sums, otherwise in the events of the
/// file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AllocatedQuestion {
    /// The most stacks that are listed.
    pub n: usize,
}

impl Default for AllocatedQuestion {
    fn default() -> AllocatedQuestion {
        AllocatedQuestion { n: 10 }
    }
}

/// The answer to [`AllocatedQuestion`].
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct Allocated<'s> {
    /// The requested bytes of all blocks that were allocated.
    pub allocated_bytes: u64,
    /// The number of these blocks.
    pub blocks: usize,
    /// Whether these are the recorder's sums over the whole run, including events that its ring lost.
    pub is_of_run: bool,
    /// Whether the figures are exact.
    pub is_exact: bool,
    /// The stacks that allocated the most, the largest first.
    pub groups: SiteList<'s, Group>,
    /// The stacks that are not listed.
    pub rest: Rest,
    /// What limits the figures of the events in the file, one sentence each; empty if nothing does.
    pub warnings: Vec<String>,
    /// A history with the stacks of the whole run, if the events of some are lost. Not in JSON.
    #[serde(skip)]
    pub stacks_of_run: Option<DeviceHistory<'s>>,
}

impl Question for AllocatedQuestion {
    type Answer<'s> = Allocated<'s>;

    fn ask<'s>(&self, subject: &'s Subject<'_>) -> Result<Allocated<'s>, Refusal> {
        let history: &'s DeviceHistory<'s> = subject.history();
        let run = subject.run();
        let lost = run.filter(|_| history.trust().has_lost);
        let stacks_of_run = lost.map(|run| DeviceHistory::new(&run.stacks, history.device()));
        let groups = match (lost, run, &stacks_of_run) {
            (Some(run), _, Some(stacks)) => stacks.groups_of(run),
            // Of the events, the peak of each site is known, also if its stacks are several.
            (_, Some(_), _) => history.allocated_with_peaks(),
            _ => history.allocated(),
        };
        let shown = stacks_of_run.as_ref().unwrap_or(history).shown_frames();
        let groups = SiteList::new(groups, self.n, shown);
        let (allocated_bytes, blocks) = Group::sum(groups.all());
        Ok(Allocated {
            allocated_bytes,
            blocks,
            is_of_run: run.is_some(),
            is_exact: is_exact(subject, groups.all()),
            rest: groups.rest(|group| group.bytes),
            groups,
            warnings: subject.warnings(),
            stacks_of_run,
        })
    }
}

fn is_exact(subject: &Subject<'_>, groups: &[Group]) -> bool {
    let trust = subject.history().trust();
    match subject.run() {
        Some(_) => groups.iter().all(|group| group.peak_is_at_most != Some(true)),
        None => !trust.has_lost && trust.is_exact(),
    }
}
