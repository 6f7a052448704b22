//! How much a watch reads.

#![forbid(unsafe_code)]

use std::time::Duration;

/// How much a watch reads, and thus how much it costs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Detail {
    /// At most this number of owners, and of sites of each list.
    pub(crate) n_owners: usize,
    pub(crate) n_sites: usize,
    /// Whether sites are compared with earlier ones, and failed requests are explained.
    pub(crate) explains: bool,
    /// Whether requests count from the start of the recording on, and not from that of the watch.
    pub(crate) from_start: bool,
    /// The time between two searches for processes, at least.
    pub(crate) search: Duration,
}

impl Detail {
    /// Returns what a person needs, with at most `n` rows in each list.
    pub(crate) fn by_a_person(n: usize) -> Detail {
        let search = Duration::from_secs(2);
        Detail { n_owners: n, n_sites: n, explains: true, from_start: false, search }
    }

    /// Returns what a person looks at from the start of a run on: its processes are found at once.
    pub(crate) fn of_a_run(n: usize) -> Detail {
        let Detail { search, from_start, .. } = Detail::by_metrics(n);
        Detail { search, from_start, ..Detail::by_a_person(n) }
    }

    /// Returns what metrics need: all owners, and at most this number of sites.
    pub(crate) fn by_metrics(n_sites: usize) -> Detail {
        let search = Duration::from_millis(100);
        Detail { n_owners: usize::MAX, n_sites, explains: false, from_start: true, search }
    }
}
