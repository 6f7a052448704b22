//! The figures of a device of an older run, which limit those of a new one: all that a baseline is compared by.

#![forbid(unsafe_code)]

use std::collections::BTreeMap;

use memreel_snapshot::{
    DeviceId,
    analysis::{By, Check, DeviceHistory, Figures, Group, Limits},
    history::Moment,
};
use serde::{Deserialize, Serialize};

use super::doubts::Doubts;
use crate::text::Sites;

/// How many call sites of a moment are kept.
pub(super) const N_SITES: usize = 10;

/// Bytes by call site.
pub(super) type SiteBytes = BTreeMap<String, u64>;

/// The figures of a device.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct KeptFigures {
    device: i64,
    pub(super) is_heap: bool,
    peak_bytes: u64,
    live_bytes: u64,
    reserved_bytes: u64,
    /// The most bytes that each owner held from the device.
    owners: BTreeMap<String, u64>,
    /// Why the history is missing or has hardly any events.
    pub(super) absence: Option<String>,
    pub(super) doubts: Doubts,
    /// The largest call sites at the peak.
    pub(super) peak_sites: SiteBytes,
    /// The largest call sites at the end.
    pub(super) live_sites: SiteBytes,
}

impl KeptFigures {
    /// Returns the figures of a history, without its call sites.
    pub(super) fn of(history: &DeviceHistory<'_>, has_owners: bool) -> KeptFigures {
        let figures = history.figures();
        let owners = if has_owners { history.owner_peaks() } else { Vec::new() };
        KeptFigures {
            device: history.device().0,
            is_heap: history
                .snapshot()
                .usage()
                .iter()
                .any(|of| of.device == history.device() && of.is_heap()),
            peak_bytes: figures.peak_bytes,
            live_bytes: figures.live_bytes,
            reserved_bytes: figures.reserved_bytes,
            owners: owners.into_iter().map(|peak| (peak.owner.to_string(), peak.bytes)).collect(),
            absence: history.trust().absence.map(|absence| absence.to_string()),
            doubts: Doubts::of(history),
            peak_sites: SiteBytes::new(),
            live_sites: SiteBytes::new(),
        }
    }

    /// Adds the largest call sites.
    pub(super) fn with_sites(self, history: &DeviceHistory<'_>) -> KeptFigures {
        let peak_sites = largest(at_peak(history, &history.figures()));
        let live_sites = largest(at(history, history.end()));
        KeptFigures { peak_sites, live_sites, ..self }
    }

    pub(super) fn device(&self) -> DeviceId {
        DeviceId(self.device)
    }

    /// Compares the figures of a run with these, and its owners that have a limit.
    pub(super) fn check(
        &self,
        history: &DeviceHistory<'_>,
        figures: &Figures,
        owners: &[(String, u64)],
        tolerance: f64,
    ) -> Vec<Check> {
        let mut most = Limits::new().peak_bytes(self.peak_bytes).live_bytes(self.live_bytes);
        // A heap's reserved memory is the pages that were ever touched, which differ from run to run.
        if !self.is_heap {
            most = most.reserved_bytes(self.reserved_bytes);
        }
        for (owner, _) in owners {
            most = most.owner_bytes(owner, self.owners.get(owner).copied().unwrap_or(0));
        }
        let most = most.with_tolerance(tolerance);
        figures.check(&most).into_iter().chain(history.check_owners(&most)).map(Check::of_baseline).collect()
    }
}

/// Returns the bytes of all call sites at the peak, which may be earlier than the events.
pub(super) fn at_peak(history: &DeviceHistory<'_>, figures: &Figures) -> SiteBytes {
    let Some(peak) = history.earlier_peak() else { return at(history, figures.peak) };
    let stacks = peak.stacks();
    by_site(&Sites::new(&stacks, 4), &peak.top(&stacks, By::Stack).unwrap_or_default())
}

/// Returns the bytes of all call sites at a moment.
pub(super) fn at(history: &DeviceHistory<'_>, moment: Moment) -> SiteBytes {
    by_site(&Sites::new(history, 4), &history.top(moment, By::Stack))
}

fn by_site(sites: &Sites<'_>, groups: &[Group]) -> SiteBytes {
    let mut all = SiteBytes::new();
    for group in groups {
        let bytes = all.entry(without_lines(&sites.plain(&group.site))).or_default();
        *bytes = bytes.saturating_add(group.bytes);
    }
    all
}

/// Removes the numbers of lines, which change with every edit of a file: `step (train.py:12)` is `step (train.py)`.
fn without_lines(text: &str) -> String {
    let mut pieces = text.split(')');
    let mut all = pieces.next_back().unwrap_or_default().to_owned();
    for piece in pieces.rev() {
        let place = piece.rsplit_once(':').filter(|(_, line)| line.bytes().all(|c| c.is_ascii_digit()));
        all = format!("{}){all}", place.map_or(piece, |(place, _)| place));
    }
    all
}

fn largest(all: SiteBytes) -> SiteBytes {
    let mut all: Vec<(String, u64)> = all.into_iter().collect();
    all.sort_by(|(one, a), (other, b)| b.cmp(a).then_with(|| one.cmp(other)));
    all.truncate(N_SITES);
    all.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sites_have_no_lines() {
        let text = "f<a::b(int)> (net.rs:31) ← 2 more ← main (c:/m.rs:5)";
        assert_eq!(without_lines(text), "f<a::b(int)> (net.rs) ← 2 more ← main (c:/m.rs)");
        assert_eq!(without_lines("(no stack) 4 B each"), "(no stack) 4 B each");
        assert_eq!(without_lines(""), "");
    }
}
