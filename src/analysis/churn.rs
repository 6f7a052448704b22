//! Sites that allocate and free the same size again and again.

use serde::Serialize;

use super::{state::DeviceHistory, top::Site};
use crate::{
    history::{Life, Moment},
    snapshot::{StackIndex, StackTable},
};

/// A site with one size.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[non_exhaustive]
pub struct ChurnSite {
    /// The stack, or the size where there is none.
    #[serde(skip)]
    pub site: Site,
    /// How often a block was allocated and freed within the history.
    #[serde(rename = "cycles")]
    pub n_cycles: usize,
    /// The bytes that each block requested.
    pub size_bytes: u64,
    /// The bytes that all of them requested.
    pub bytes: u64,
    /// The mean number of entries from a block's alloc to the end of its free.
    #[serde(rename = "mean_life_events")]
    pub mean_life_entries: u64,
}

impl DeviceHistory<'_> {
    /// Returns the sites with at least two cycles of alloc and free, those with the most cycles first.
    #[must_use]
    pub fn churn(&self) -> Vec<ChurnSite> {
        let is_cycle = |life: &&Life| !life.is_from_before() && life.until != Moment::NEVER;
        let mut cycles: Vec<Cycle> = self.lives().iter().filter(is_cycle).map(Cycle::new).collect();
        // There may be as many sites as cycles, so sorting is faster than hashing.
        cycles.sort_unstable();
        let same =
            |one: &Cycle, other: &Cycle| (one.stack, one.size_bytes) == (other.stack, other.size_bytes);
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
    stack: Option<StackIndex>,
    size_bytes: u64,
    n_entries: u32,
}

impl Cycle {
    fn new(life: &Life) -> Cycle {
        let stack = life.stack.filter(|stack| *stack != StackTable::EMPTY);
        Cycle { stack, size_bytes: life.requested_bytes, n_entries: life.until.0 - life.from.0 }
    }
}

impl ChurnSite {
    /// Sums up the cycles of one site, of which there is at least one.
    fn new(cycles: &[Cycle]) -> ChurnSite {
        let Cycle { stack, size_bytes, .. } = cycles[0];
        let n_entries: u64 = cycles.iter().map(|cycle| u64::from(cycle.n_entries)).sum();
        ChurnSite {
            site: stack.map_or(Site::Size(size_bytes), Site::Stack),
            n_cycles: cycles.len(),
            size_bytes,
            bytes: size_bytes.saturating_mul(cycles.len() as u64),
            mean_life_entries: n_entries / cycles.len() as u64,
        }
    }
}
