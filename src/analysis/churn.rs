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
        churn(self)
    }
}

/// Sorts cycles instead of hashing them, because there may be as many sites as cycles.
fn churn(history: &DeviceHistory<'_>) -> Vec<ChurnSite> {
    let is_cycle = |life: &&Life| !life.is_from_before() && life.until != Moment::NEVER;
    let mut cycles: Vec<(Option<StackIndex>, u64, u32)> = history
        .lives()
        .iter()
        .filter(is_cycle)
        .map(|life| {
            let stack = life.stack.filter(|stack| *stack != StackTable::EMPTY);
            (stack, life.requested_bytes, life.until.0 - life.from.0)
        })
        .collect();
    cycles.sort_unstable();
    let same = |one: &(Option<StackIndex>, u64, u32), other: &(Option<StackIndex>, u64, u32)| {
        (one.0, one.1) == (other.0, other.1)
    };
    let mut sites: Vec<ChurnSite> =
        cycles.chunk_by(same).filter(|cycles| cycles.len() > 1).map(site_of).collect();
    sites.sort_by(|one, other| {
        let key = |site: &ChurnSite| (site.n_cycles, site.bytes);
        key(other)
            .cmp(&key(one))
            .then_with(|| (&one.site, one.size_bytes).cmp(&(&other.site, other.size_bytes)))
    });
    sites
}

fn site_of(cycles: &[(Option<StackIndex>, u64, u32)]) -> ChurnSite {
    let (stack, size_bytes, _) = cycles[0];
    let ages: u64 = cycles.iter().map(|(_, _, age)| u64::from(*age)).sum();
    ChurnSite {
        site: stack.map_or(Site::Size(size_bytes), Site::Stack),
        size_bytes,
        n_cycles: cycles.len(),
        bytes: size_bytes.saturating_mul(cycles.len() as u64),
        mean_life_entries: ages / cycles.len() as u64,
    }
}
