//! What is held at the end, and what of it grew.

mod between;
mod older;

use memreel_snapshot::analysis::{Claim, LeakSite, Rest, SiteList};
use serde::Serialize;

use crate::{Question, Refusal, Subject};

pub use between::{Between, BetweenQuestion};
pub use older::{Older, OlderQuestion};

/// Which sites grew, and which memory is held at the end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LeaksQuestion {
    /// The most sites that are listed.
    pub n: usize,
}

impl Default for LeaksQuestion {
    fn default() -> LeaksQuestion {
        LeaksQuestion { n: 10 }
    }
}

/// The answer to [`LeaksQuestion`].
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Leaks<'s> {
    /// The requested bytes that the program holds at the end.
    pub allocated_bytes: u64,
    /// The number of sites that hold more from quarter to quarter of the history.
    pub n_growing: usize,
    /// The number of sites that leak.
    pub n_leaks: usize,
    /// The number of sites that grew, and may stop growing.
    pub n_grew: usize,
    /// The number of sites that may leak, of which the history has too little.
    pub n_may_be_leaks: usize,
    /// The sites: first leaks, then what grew, what may be a leak, and what is held.
    pub sites: SiteList<'s, LeakSite>,
    /// The sites that are not listed.
    pub rest: Rest,
    /// What limits the figures, one sentence each; empty if nothing does.
    pub warnings: Vec<String>,
}

impl Question for LeaksQuestion {
    type Answer<'s> = Leaks<'s>;

    fn ask<'s>(&self, subject: &'s Subject<'_>) -> Result<Leaks<'s>, Refusal> {
        let history = subject.history();
        let sites = SiteList::new(history.leaks(), self.n, history.shown_frames());
        let count = |is: fn(&Claim) -> bool| sites.all().iter().filter(|site| is(&site.claim)).count();
        Ok(Leaks {
            allocated_bytes: history.totals_at(history.end()).allocated_bytes,
            n_growing: sites.all().iter().filter(|site| site.is_growing).count(),
            n_leaks: count(|claim| matches!(claim, Claim::Leak)),
            n_grew: count(|claim| matches!(claim, Claim::Grew)),
            n_may_be_leaks: count(|claim| matches!(claim, Claim::MayBeALeak(_))),
            rest: sites.rest(|site| site.bytes),
            sites,
            warnings: subject.warnings(),
        })
    }
}
