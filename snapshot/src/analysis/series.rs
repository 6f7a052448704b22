//! What sites hold in several snapshots of one program, taken one after the other.

use serde::Serialize;

use super::{
    site::Site,
    site_key::{SiteKey, SiteKeys},
    state::DeviceHistory,
};
use crate::words::SeededMap;

/// What a site holds at the end of each of several snapshots.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[non_exhaustive]
pub struct SeriesSite {
    /// The site, in the last snapshot that has it.
    #[serde(skip)]
    pub site: Site,
    /// The number of that snapshot among them.
    #[serde(skip)]
    pub snapshot: usize,
    /// By snapshot, the requested bytes of its blocks that the program holds.
    pub bytes: Vec<u64>,
    /// By snapshot, the number of these blocks.
    #[serde(rename = "blocks")]
    pub n_blocks: Vec<usize>,
    /// Whether each snapshot has more bytes than the one before.
    pub is_growing: bool,
}

impl SeriesSite {
    /// Returns by how many bytes it grew from the first snapshot to the last.
    #[must_use]
    pub fn grown_bytes(&self) -> u64 {
        self.bytes.last().zip(self.bytes.first()).map_or(0, |(last, first)| last.saturating_sub(*first))
    }
}

/// Returns what each site holds at the ends of several snapshots of one device: those that grow in each of them first, and
/// of both kinds the one that grew most first.
#[must_use]
pub fn series<'a>(histories: &[DeviceHistory<'a>]) -> Vec<SeriesSite> {
    let mut keys = SiteKeys::default();
    let mut sites: SeededMap<SiteKey, SeriesSite> = SeededMap::default();
    for (number, history) in histories.iter().enumerate() {
        let shown = history.shown_frames();
        for group in history.held_at(history.end()) {
            let found = sites.entry(keys.of(&group.site, &shown)).or_insert_with(|| SeriesSite {
                site: group.site.clone(),
                snapshot: number,
                bytes: vec![0; histories.len()],
                n_blocks: vec![0; histories.len()],
                is_growing: false,
            });
            (found.site, found.snapshot) = (group.site, number);
            found.bytes[number] = group.bytes;
            found.n_blocks[number] = group.n_blocks;
        }
    }
    let mut sites: Vec<SeriesSite> = sites.into_values().collect();
    for site in &mut sites {
        site.is_growing = site.bytes.len() > 1 && site.bytes.windows(2).all(|pair| pair[0] < pair[1]);
    }
    sites.sort_by(|one, other| {
        let key = |site: &SeriesSite| (site.is_growing, site.grown_bytes(), site.bytes.last().copied());
        key(other).cmp(&key(one)).then_with(|| one.site.cmp(&other.site))
    });
    sites
}
