//! Finds growth of reserved memory: each step takes more from the device, although no more is in use.

use serde::Serialize;

use crate::{
    analysis::{
        AtSite, DeviceHistory, Site, SiteFinding,
        sites::SameCalls,
        state::{Holding, has_requests},
    },
    history::Moment,
    words::{Bytes, SeededMap},
};

/// How much more is reserved at the end of each repeat of a step, beyond the most that was in use until then.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[non_exhaustive]
pub struct ReservedGrowth {
    /// The call for which most of it was reserved.
    #[serde(skip)]
    pub site: Site,
    /// The bytes.
    #[serde(rename = "grown_bytes")]
    pub bytes: u64,
    /// The number of repeats in which it grew.
    #[serde(rename = "grown_repeats")]
    pub n_repeats: usize,
    /// The end of the repeat before the first of these.
    #[serde(rename = "began_event")]
    pub began: Moment,
    /// The number of segments, or of their mapped pieces, that were reserved since then for the call and are still
    /// held.
    #[serde(rename = "segments")]
    pub n_segments: usize,
    /// The bytes of these.
    pub site_bytes: u64,
}

/// Growth in fewer repeats may be the start of a program.
const FEWEST: usize = 3;

/// Growth below this fraction of what is reserved is not reported, one in this number.
const LEAST: u64 = 20;

/// It must have grown within the last part of the repeats: one in this number of all.
const LAST: usize = 4;

impl DeviceHistory<'_> {
    /// Returns how reserved memory grew until the end, step by step, while no more was in use; `None` if it did not, or if the
    /// program repeats nothing.
    #[must_use]
    pub fn reserved_growth(&self) -> Option<ReservedGrowth> {
        let is_requested = has_requests(self.snapshot(), self.device(), self.segments(), self.entries());
        let ends = self.repeat_ends().filter(|_| is_requested)?;
        let levels = self.reserved_beyond_use(&ends);
        let (mut most, mut rises) = (levels.first()?.1, Vec::new());
        for (at, (_, beyond)) in levels.iter().enumerate().skip(1) {
            if *beyond > most {
                rises.push(at);
                most = *beyond;
            }
        }
        let began = ends[rises.first()?.checked_sub(1)?];
        let [(first_reserved, first), .., (reserved_bytes, last)] = levels[..] else { return None };
        let bytes = last.saturating_sub(first);
        let is_recent = *rises.last()? + levels.len().div_ceil(LAST) >= levels.len();
        // Otherwise it is due to what more blocks in use waste.
        let is_most = bytes >= reserved_bytes.saturating_sub(first_reserved) / 2;
        if rises.len() < FEWEST || !is_recent || !is_most || bytes < (reserved_bytes / LEAST).max(1) {
            return None;
        }
        let (site, n_segments, site_bytes) = self.most_reserved_between(began, *ends.last()?)?;
        Some(ReservedGrowth { site, bytes, n_repeats: rises.len(), began, n_segments, site_bytes })
    }

    /// Returns the bytes that are reserved at some moments, and how many of them exceed the most that was in blocks
    /// until then.
    fn reserved_beyond_use(&self, moments: &[Moment]) -> Vec<(u64, u64)> {
        let (mut levels, mut most) = (Vec::with_capacity(moments.len()), 0);
        let mut next = moments.iter().peekable();
        for totals in self.totals() {
            most = most.max(totals.rounded_bytes);
            while next.next_if(|moment| **moment <= totals.moment).is_some() {
                levels.push((totals.reserved_bytes, totals.reserved_bytes.saturating_sub(most)));
            }
        }
        levels
    }

    /// Returns the call for which the most was reserved between two moments and is still held at the end, with the
    /// number of pieces and their bytes.
    fn most_reserved_between(&self, first: Moment, last: Moment) -> Option<(Site, usize, u64)> {
        let mut calls = SameCalls::new(self);
        let mut sums: SeededMap<Site, (u64, usize)> = SeededMap::default();
        for Holding { bytes, stack, from, until } in self.holdings() {
            if from > first && from <= last && until == Moment::NEVER {
                let site = stack.map_or(Site::Size(bytes), Site::Stack);
                let (sum, n) = sums.entry(calls.site(&site)).or_default();
                *sum = sum.saturating_add(bytes);
                *n += 1;
            }
        }
        let most = sums
            .into_iter()
            .max_by(|(one, sums), (other, others)| sums.cmp(others).then_with(|| other.cmp(one)));
        most.map(|(site, (bytes, n))| (site, n, bytes))
    }
}

impl ReservedGrowth {
    /// Returns how fast it grows: `2.00 GiB in each of 8 steps`.
    #[must_use]
    pub fn pace(&self) -> String {
        format!("{} in each of {} steps", Bytes(self.bytes / self.n_repeats.max(1) as u64), self.n_repeats)
    }
}

impl SiteFinding for ReservedGrowth {
    fn finding(&self, by: &str) -> String {
        let pieces = match self.n_segments {
            1 => "1 segment".to_owned(),
            n => format!("{n} segments"),
        };
        format!(
            "reserved memory grew by {} beyond the most that was in use, {}: {} in {pieces} allocated by {by}",
            Bytes(self.bytes),
            self.pace(),
            Bytes(self.site_bytes),
        )
    }
}

impl AtSite for ReservedGrowth {
    fn site(&self) -> Option<&Site> {
        Some(&self.site)
    }
}
