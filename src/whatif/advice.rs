//! Chooses which of several settings to advise, and describes what each gains and costs.

use std::collections::BTreeMap;

use super::{
    answer::ReplayAnswer,
    bounds::Bounds,
    requests::Requests,
    sweep::{Sweep, grid},
};
use memreel_snapshot::{
    analysis::{oom::TriedSetting, options},
    words::Result,
};

/// The most settings that are described if one of them satisfies the request.
const MOST_DESCRIBED: usize = 8;

/// Returns the answers for one device, best first.
///
/// The best setting has the fewest failing requests. Of such settings, those come first whose worst peak is within a
/// twentieth of the lowest. Among these, the order is: the fewest calls to the device, each of which takes about a
/// hundred times as long as a request from the cache; then the lower peak; then the fewest options. A setting that is
/// not surely better than the recorded one comes after it: a difference that is smaller than the difference between
/// orders of addresses may be due to addresses.
#[must_use]
pub fn ranked<'a>(answers: &'a [ReplayAnswer], recorded_conf: &str) -> Vec<&'a ReplayAnswer> {
    let least_bytes = |num_ooms: u64| {
        let equal = answers.iter().filter(|answer| answer.worst_num_ooms() == num_ooms);
        equal.map(ReplayAnswer::worst_peak_bytes).min().unwrap_or(0)
    };
    let rank = |answer: &&ReplayAnswer| {
        let (num_ooms, peak_bytes) = (answer.worst_num_ooms(), answer.worst_peak_bytes());
        let least_bytes = least_bytes(num_ooms);
        let is_near = peak_bytes <= least_bytes.saturating_add(least_bytes / 20);
        let num_calls = answer.falling.num_device_calls();
        let (first, second) = if is_near { (num_calls, peak_bytes) } else { (peak_bytes, num_calls) };
        (num_ooms, !is_near, first, second, answer.num_options())
    };
    let mut all: Vec<&ReplayAnswer> = answers.iter().collect();
    all.sort_by_cached_key(rank);
    let Some(at) = all.iter().position(|answer| answer.conf == recorded_conf) else { return all };
    let recorded = all.remove(at);
    let (mut better, others): (Vec<_>, Vec<_>) =
        all.into_iter().partition(|answer| is_surely_better(answer, recorded));
    better.push(recorded);
    better.extend(others);
    better
}

/// Returns whether fewer requests fail than under the recorded setting or, if none fails under either, whether the
/// worst case is below all of its peaks. A smaller difference may be due to addresses, and a lower peak is no gain
/// where requests fail.
fn is_surely_better(answer: &ReplayAnswer, recorded: &ReplayAnswer) -> bool {
    let [n_failed, recorded_n_failed] = [answer, recorded].map(ReplayAnswer::worst_num_ooms);
    n_failed < recorded_n_failed
        || n_failed == 0
            && recorded_n_failed == 0
            && answer.spread().highest_bytes < recorded.spread().lowest_bytes
}

impl Requests {
    /// Runs a [`Sweep`] with the memory that the recorded run had, and returns what each setting achieves at the failed
    /// request of a trace entry, best first ([`ranked`]). Of settings with the same results, only the first is
    /// described.
    pub(super) fn tried_settings(&self, entry: usize) -> Result<Vec<TriedSetting>> {
        let bounds = self.bounds();
        let reader = self.recorded().reader();
        let mut confs = grid(bounds.limit_bytes());
        confs.retain(|conf| reader.takes(conf));
        let answers = Sweep::new(std::slice::from_ref(self)).confs(confs).bounds(bounds).run()?;
        // By rank.
        let mut described: BTreeMap<usize, (&ReplayAnswer, TriedSetting)> = BTreeMap::new();
        let ranked = ranked(&answers, self.recorded().usable_conf());
        for (rank, answer) in ranked.iter().enumerate() {
            if described.values().any(|(known, _)| is_alike(known, answer)) {
                continue;
            }
            let is_served = described.values().any(|(_, setting)| setting.served.is_served());
            if described.len() >= MOST_DESCRIBED && is_served {
                break;
            }
            let Some(setting) = self.described(entry, answer, bounds)? else { continue };
            if setting.is_recorded && setting.served.is_served() {
                // The request is satisfied under the setting with which it failed: the replay does not know what
                // prevented it.
                return Ok(Vec::new());
            }
            described.insert(rank, (answer, setting));
        }
        // A smaller change may satisfy it too.
        let first = described.values().find(|(_, setting)| setting.served.is_served());
        let smaller = first.map_or_else(Vec::new, |(best, _)| parts_of(best, &ranked));
        for rank in smaller {
            if !described.contains_key(&rank)
                && let Some(setting) = self.described(entry, ranked[rank], bounds)?
            {
                described.insert(rank, (ranked[rank], setting));
            }
        }
        Ok(described.into_values().map(|(_, setting)| setting).collect())
    }

    fn described(&self, entry: usize, answer: &ReplayAnswer, bounds: Bounds) -> Result<Option<TriedSetting>> {
        let after = self.after_failure(entry, &answer.conf, bounds)?;
        Ok(after.map(|after| {
            let outcome = &answer.outcome;
            let mut setting = TriedSetting::new(answer.conf.clone(), after.served);
            setting.is_recorded = answer.conf == self.recorded().usable_conf();
            (setting.num_after, setting.num_served_after) = (after.num_after, after.num_served_after);
            setting.num_ooms = answer.worst_num_ooms();
            setting.reserved_peak_bytes = outcome.reserved_peak_bytes;
            setting.num_device_calls = outcome.num_device_calls();
            setting
        }))
    }
}

/// Returns the ranks of the settings that have a subset of a setting's options.
fn parts_of(answer: &ReplayAnswer, ranked: &[&ReplayAnswer]) -> Vec<usize> {
    let all: Vec<&str> = options(&answer.conf).collect();
    let is_part = |(_, other): &(usize, &&ReplayAnswer)| {
        let some: Vec<&str> = options(&other.conf).collect();
        !some.is_empty() && some.len() < all.len() && some.iter().all(|option| all.contains(option))
    };
    ranked.iter().enumerate().filter(is_part).map(|(rank, _)| rank).collect()
}

/// Returns whether two settings have the same results in both orders of addresses.
fn is_alike(one: &ReplayAnswer, other: &ReplayAnswer) -> bool {
    (&one.rising, &one.falling) == (&other.rising, &other.falling)
}
