//! Determines the ends of blocks that were in use when the history started, as far as later blocks show them.
//!
//! A large block may be up to a mebibyte larger than its request, and no entry has its size. If free memory follows it,
//! the first block that is allocated there starts at its end.

use std::collections::BTreeMap;

use super::step::Prior;
use crate::allocator::Settings;
use memreel_snapshot::{
    model::TraceEntry,
    words::{Action, Address, torch::SMALL_MAX_BYTES},
};

/// Returns the ends of blocks by address, for those that another block directly follows while they are in use.
pub(super) fn block_ends(
    priors: &[Prior],
    entries: &[TraceEntry],
    settings: &Settings,
) -> BTreeMap<Address, Address> {
    let least_end = |prior: &Prior| prior.address.saturating_add(settings.rounded_bytes(prior.bytes));
    let unknown = priors.iter().filter(|prior| prior.block_bytes.is_none());
    let mut live: BTreeMap<Address, Address> =
        unknown.map(|prior| (prior.address, least_end(prior))).collect();
    let mut ends = BTreeMap::new();
    for entry in entries {
        match entry.action {
            Some(Action::Alloc) => {
                let before = live.range(..entry.address).next_back().map(|(start, end)| (*start, *end));
                if let Some((start, least_end)) = before
                    && (least_end..=least_end.saturating_add(SMALL_MAX_BYTES)).contains(&entry.address)
                {
                    let end = ends.entry(start).or_insert(entry.address);
                    *end = entry.address.min(*end);
                }
            }
            Some(Action::FreeRequested | Action::FreeCompleted) => drop(live.remove(&entry.address)),
            _ => {}
        }
    }
    ends
}
