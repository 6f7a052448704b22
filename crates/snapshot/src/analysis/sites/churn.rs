//! Finds sites that allocate and free the same size again and again.

use serde::Serialize;

use super::{same_calls::SameCalls, site::Site, top::is_zero, with_frames::AtSite};
use crate::{
    analysis::DeviceHistory,
    history::{Life, Moment},
    model::{StackIndex, StackTable},
};

/// A site with one size.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[non_exhaustive]
pub struct ChurnSite {
    /// The stack, or the size if there is none.
    #[serde(skip)]
    pub site: Site,
    /// How often a block was allocated and freed within the history.
    #[serde(rename = "cycles")]
    pub n_cycles: usize,
    /// The bytes that each block requested.
    pub size_bytes: u64,
    /// The bytes that all of them requested; an estimate for a sampled heap.
    pub bytes: u64,
    /// The mean number of entries from a block's alloc to the end of its free.
    #[serde(rename = "mean_life_events")]
    pub mean_life_entries: u64,
    /// The number of recorded stacks of these allocations.
    #[serde(rename = "stacks", skip_serializing_if = "is_zero")]
    pub n_stacks: usize,
}

impl AtSite for ChurnSite {
    fn site(&self) -> Option<&Site> {
        Some(&self.site)
    }

    fn has_size_bytes(&self) -> bool {
        true
    }
}

impl DeviceHistory<'_> {
    /// Returns the sites with at least two cycles of alloc and free, most cycles first.
    #[must_use]
    pub fn churn(&self) -> Vec<ChurnSite> {
        let is_cycle = |life: &&Life| !life.is_from_before() && life.until != Moment::NEVER;
        let mut same = SameCalls::new(self);
        let lives = self.lives().iter().filter(is_cycle);
        let mut cycles: Vec<Cycle> = lives.map(|life| Cycle::new(life, &mut same)).collect();
        // There may be as many sites as cycles, so sorting is faster than hashing.
        cycles.sort_unstable();
        let same =
            |one: &Cycle, other: &Cycle| (one.calls, one.size_bytes) == (other.calls, other.size_bytes);
        let repeated = cycles.chunk_by(same).filter(|cycles| cycles.len() > 1);
        let mut sites: Vec<ChurnSite> = repeated.map(ChurnSite::new).collect();
        sites.sort_by(|one, other| {
            let key = |site: &ChurnSite| (site.n_cycles, site.bytes);
            key(other)
                .cmp(&key(one))
                .then_with(|| (&one.site, one.size_bytes).cmp(&(&other.site, other.size_bytes)))
        });
        sites
    }
}

/// One alloc of a block and the end of its free.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Cycle {
    /// The stack that represents all stacks with its calls.
    calls: Option<StackIndex>,
    size_bytes: u64,
    represented_bytes: u64,
    stack: Option<StackIndex>,
    n_entries: u32,
}

impl Cycle {
    fn new(life: &Life, same: &mut SameCalls<'_, '_>) -> Cycle {
        let stack = life.stack.filter(|stack| *stack != StackTable::EMPTY);
        Cycle {
            calls: stack.map(|stack| same.first(stack)),
            size_bytes: life.requested_bytes,
            represented_bytes: life.represented_bytes,
            stack,
            n_entries: life.until.0 - life.from.0,
        }
    }
}

impl ChurnSite {
    /// Sums the cycles of one site, of which there is at least one; they are sorted.
    fn new(cycles: &[Cycle]) -> ChurnSite {
        let size_bytes = cycles[0].size_bytes;
        let of_stacks = || cycles.chunk_by(|one, other| one.stack == other.stack);
        let stack = of_stacks().max_by_key(|cycles| cycles.len()).and_then(|cycles| cycles[0].stack);
        let n_entries: u64 = cycles.iter().map(|cycle| u64::from(cycle.n_entries)).sum();
        ChurnSite {
            site: stack.map_or(Site::Size(size_bytes), Site::Stack),
            n_cycles: cycles.len(),
            size_bytes,
            bytes: cycles[0].represented_bytes.saturating_mul(cycles.len() as u64),
            mean_life_entries: n_entries / cycles.len() as u64,
            n_stacks: of_stacks().filter(|cycles| cycles[0].stack.is_some()).count(),
        }
    }
}
