//! Sites that allocate and free the same size again and again.

use rustc_hash::FxHashMap;

use super::{life::Moment, state::DeviceHistory, top::Site};

/// A site with one size.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct ChurnSite {
    /// The stack, or the size where there is none.
    pub site: Site,
    /// What each block asked for.
    pub size_bytes: u64,
    /// How often a block was allocated and freed within the history.
    pub n_cycles: usize,
    /// What all of these asked for.
    pub bytes: u64,
    /// How many entries a block lived, on average.
    pub mean_life_entries: u64,
}

/// The sites with at least two cycles, the busiest first.
#[must_use]
pub fn churn(history: &DeviceHistory<'_>) -> Vec<ChurnSite> {
    let mut sites: FxHashMap<(Site, u64), ChurnSite> = FxHashMap::default();
    let mut ages: FxHashMap<(Site, u64), u64> = FxHashMap::default();
    for life in history.lives().iter().filter(|life| !life.is_from_before() && life.until != Moment::NEVER) {
        let key = (Site::of(life), life.requested_bytes);
        *ages.entry(key.clone()).or_default() += u64::from(life.until.0 - life.from.0);
        let found = sites.entry(key).or_insert_with_key(|(site, size_bytes)| ChurnSite {
            site: site.clone(),
            size_bytes: *size_bytes,
            n_cycles: 0,
            bytes: 0,
            mean_life_entries: 0,
        });
        found.n_cycles += 1;
        found.bytes = found.bytes.saturating_add(life.requested_bytes);
    }
    let mut sites: Vec<ChurnSite> = sites
        .into_iter()
        .filter(|(_, site)| site.n_cycles > 1)
        .map(|(key, site)| ChurnSite { mean_life_entries: ages[&key] / site.n_cycles as u64, ..site })
        .collect();
    sites.sort_by(|one, other| {
        let key = |site: &ChurnSite| (site.n_cycles, site.bytes);
        key(other)
            .cmp(&key(one))
            .then_with(|| (&one.site, one.size_bytes).cmp(&(&other.site, other.size_bytes)))
    });
    sites
}
