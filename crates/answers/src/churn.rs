//! Sites that allocate and free the same size again and again.

use memreel_snapshot::analysis::{ChurnSite, Rest, SiteList};
use serde::Serialize;

use crate::{Question, Refusal, Subject};

/// Which sites allocate and free blocks of the same size again and again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ChurnQuestion {
    /// The most sites that are listed.
    pub n: usize,
}

impl Default for ChurnQuestion {
    fn default() -> ChurnQuestion {
        ChurnQuestion { n: 10 }
    }
}

/// The answer to [`ChurnQuestion`].
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Churn<'s> {
    /// The number of times that a block was allocated and freed, at all sites.
    pub cycles: usize,
    /// The sites, the most cycles first.
    pub sites: SiteList<'s, ChurnSite>,
    /// The sites that are not listed, with the bytes that their blocks requested.
    pub rest: Rest,
    /// What limits the figures, one sentence each; empty if nothing does.
    pub warnings: Vec<String>,
}

impl Question for ChurnQuestion {
    type Answer<'s> = Churn<'s>;

    fn ask<'s>(&self, subject: &'s Subject<'_>) -> Result<Churn<'s>, Refusal> {
        let history = subject.history();
        let sites = SiteList::new(history.churn(), self.n, history.shown_frames());
        Ok(Churn {
            cycles: sites.all().iter().map(|site| site.n_cycles).sum(),
            rest: sites.rest(|site| site.bytes),
            sites,
            warnings: subject.warnings(),
        })
    }
}
