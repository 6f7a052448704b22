//! What sites hold in several successive snapshots of one program.

use serde::Serialize;

use crate::{
    analysis::{
        AtSite, DeviceHistory, Site,
        sites::{SiteKey, SiteKeys},
    },
    words::SeededMap,
};

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
    /// The requested bytes of its allocated blocks, by snapshot.
    pub bytes: Vec<u64>,
    /// The number of these blocks, by snapshot.
    #[serde(rename = "blocks")]
    pub n_blocks: Vec<usize>,
    /// Whether each snapshot has more bytes than the one before.
    pub is_growing: bool,
}

impl AtSite for SeriesSite {
    fn site(&self) -> Option<&Site> {
        Some(&self.site)
    }
}

impl SeriesSite {
    /// Returns by how many bytes the site grew from the first snapshot to the last.
    #[must_use]
    pub fn grown_bytes(&self) -> u64 {
        self.bytes.last().zip(self.bytes.first()).map_or(0, |(last, first)| last.saturating_sub(*first))
    }

    /// Returns whether each of the first snapshots, at least two of them, has more bytes than the one before.
    #[must_use]
    pub fn grows_until(&self, n_snapshots: usize) -> bool {
        let first = &self.bytes[..n_snapshots.min(self.bytes.len())];
        first.len() > 1 && first.is_sorted_by(|one, other| one < other)
    }
}

/// Sums what each site holds at the ends of several snapshots of one device, without keeping their histories.
#[derive(Debug)]
pub struct Series<'a> {
    n_snapshots: usize,
    keys: SiteKeys<'a>,
    /// The places of the sites in `last`. A table has up to twice the room that it needs, so it has nothing else.
    places: SeededMap<SiteKey, usize>,
    /// The sites, each with the number of the last snapshot that has it.
    last: Vec<(Site, usize)>,
    /// The bytes and blocks of each site in each snapshot.
    held: Vec<(u64, usize)>,
}

impl<'a> Series<'a> {
    /// Creates a series of this number of snapshots.
    #[must_use]
    pub fn new(n_snapshots: usize) -> Series<'a> {
        let keys = SiteKeys::default();
        Series { n_snapshots, keys, places: SeededMap::default(), last: Vec::new(), held: Vec::new() }
    }

    /// Adds the history of a snapshot, whose number is below the number of snapshots.
    pub fn add(&mut self, number: usize, history: &DeviceHistory<'a>) {
        let shown = history.shown_frames();
        for group in history.held_at(history.end()) {
            let n_sites = self.places.len();
            let place = *self.places.entry(self.keys.of(&group.site, &shown)).or_insert(n_sites);
            let site = (group.site, number);
            match self.last.get_mut(place) {
                Some(last) => *last = site,
                None => self.last.push(site),
            }
            self.held.resize(self.last.len() * self.n_snapshots, (0, 0));
            self.held[place * self.n_snapshots + number] = (group.bytes, group.n_blocks);
        }
    }

    /// Returns the sites: first those that grow in each snapshot, then the others; within each, the one that grew most
    /// comes first.
    #[must_use]
    pub fn sites(self) -> Vec<SeriesSite> {
        let Series { n_snapshots, keys, places, last, held } = self;
        drop((keys, places));
        let of_sites = last.into_iter().zip(held.chunks_exact(n_snapshots.max(1)));
        let site = |((site, snapshot), held): ((Site, usize), &[(u64, usize)])| SeriesSite {
            site,
            snapshot,
            bytes: held.iter().map(|(bytes, _)| *bytes).collect(),
            n_blocks: held.iter().map(|(_, n_blocks)| *n_blocks).collect(),
            is_growing: false,
        };
        let mut sites: Vec<SeriesSite> = of_sites.map(site).collect();
        for site in &mut sites {
            site.is_growing = site.grows_until(site.bytes.len());
        }
        sites.sort_by(|one, other| {
            let key = |site: &SeriesSite| (site.is_growing, site.grown_bytes(), site.bytes.last().copied());
            key(other).cmp(&key(one)).then_with(|| one.site.cmp(&other.site))
        });
        sites
    }
}
