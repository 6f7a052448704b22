//! Which of several settings to advise, and what it gives and costs.

use serde::Serialize;

use super::{answer::Answer, requests::Requests};
use memreel_snapshot::{history::Confidence, words::Result};

/// The advised setting, and what it gives and costs.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[non_exhaustive]
pub struct Advice {
    /// The text of the setting.
    pub conf: String,
    /// Whether it is the recorded setting, because no other is surely better.
    pub is_recorded: bool,
    /// The number of requests that fail, of those of the recorded run.
    pub num_ooms: u64,
    /// Whether the last request that failed when it was recorded is served, with all requests before it that were
    /// served then; `None` if none failed.
    pub serves_failed: Option<bool>,
    /// How many more requests of the same size, on the same stream, are served after it while all of its blocks are
    /// kept; at most [`MOST_FURTHER`].
    pub num_further: u64,
    /// The number of recorded requests after the one that failed.
    pub num_after: u64,
    /// How many of these are served.
    pub num_served_after: u64,
    /// The most bytes reserved, in the best guess.
    pub reserved_peak_bytes: u64,
    /// The most bytes reserved in the worst order of addresses.
    pub worst_peak_bytes: u64,
    /// The number of segments and ranges of pages that are taken from the device.
    pub num_device_alloc: u64,
    /// The number of segments and ranges of pages that are returned to it.
    pub num_device_free: u64,
    /// How far the answer can be trusted.
    pub confidence: Confidence,
}

/// The most further requests that [`Advice::num_further`] counts.
pub const MOST_FURTHER: u32 = 1000;

/// Returns the answers for one device, the best first.
///
/// The fewest requests fail under the best setting. Of such settings those come first whose worst peak is within a
/// twentieth of the least one: of these, the one with the fewest calls to the device, each of which takes about a
/// hundred times as long as a request that the cache serves; then the one with the lower peak; then the one with the
/// fewest options. A setting that is not surely better than the recorded one comes after it: a difference that is
/// smaller than that between orders of addresses may be one of addresses.
#[must_use]
pub fn ranked<'a>(answers: &'a [Answer], recorded_conf: &str) -> Vec<&'a Answer> {
    let least_bytes = |num_ooms: u64| {
        let equal = answers.iter().filter(|answer| answer.worst_num_ooms() == num_ooms);
        equal.map(Answer::worst_peak_bytes).min().unwrap_or(0)
    };
    let rank = |answer: &&Answer| {
        let (num_ooms, peak_bytes) = (answer.worst_num_ooms(), answer.worst_peak_bytes());
        let least_bytes = least_bytes(num_ooms);
        let is_near = peak_bytes <= least_bytes.saturating_add(least_bytes / 20);
        let num_calls = answer.falling.num_device_calls();
        let (first, second) = if is_near { (num_calls, peak_bytes) } else { (peak_bytes, num_calls) };
        (num_ooms, !is_near, first, second, answer.num_options())
    };
    let mut all: Vec<&Answer> = answers.iter().collect();
    all.sort_by_cached_key(rank);
    let Some(at) = all.iter().position(|answer| answer.conf == recorded_conf) else { return all };
    let recorded = all.remove(at);
    let (mut better, others): (Vec<_>, Vec<_>) =
        all.into_iter().partition(|answer| is_surely_better(answer, recorded));
    better.push(recorded);
    better.extend(others);
    better
}

/// Whether fewer requests fail than under the recorded setting or, if none does, the worst case is below all of
/// its peaks. A smaller difference may be one of addresses, and a lower peak is no gain where requests fail.
fn is_surely_better(answer: &Answer, recorded: &Answer) -> bool {
    let [n_failed, recorded_n_failed] = [answer, recorded].map(Answer::worst_num_ooms);
    n_failed < recorded_n_failed
        || recorded_n_failed == 0 && answer.spread().highest_bytes < recorded.spread().lowest_bytes
}

/// Returns the best of the answers about these requests ([`ranked`]), with what it gives and costs; `None` if there is
/// no answer. `limit_bytes` is the limit of the answers.
///
/// ```
/// use memreel::{DeviceId, Reel, device::Simulated, recorder::Recording, whatif::{Requests, Sweep, advise}};
///
/// let reel = Reel::builder().device(Simulated::new(60 << 20)).history(Recording::all()).build()?;
/// let _blocks = (reel.alloc(9 << 20)?, reel.alloc(12 << 20)?);
/// reel.alloc(30 << 20).unwrap_err();
/// let requests = Requests::new(&reel.snapshot(), DeviceId(0))?;
/// let limit_bytes = requests.could_hold().map(|found| found.at_least_bytes);
/// let answers = Sweep::new(std::slice::from_ref(&requests)).limit_bytes(limit_bytes).run()?;
/// let advice = advise(&requests, &answers, limit_bytes)?.expect("there are answers");
/// assert_eq!(advice.serves_failed, Some(true));
/// # Ok::<(), memreel::Error>(())
/// ```
///
/// # Errors
/// [`is_invalid_option`](crate::Error::is_invalid_option) for settings that cannot be read.
pub fn advise(requests: &Requests, answers: &[Answer], limit_bytes: Option<u64>) -> Result<Option<Advice>> {
    let recorded_conf = requests.recorded().usable_conf();
    let Some(best) = ranked(answers, recorded_conf).first().copied() else { return Ok(None) };
    let after = requests.after_failure(&best.conf, limit_bytes, MOST_FURTHER)?;
    Ok(Some(Advice {
        conf: best.conf.clone(),
        is_recorded: best.conf == recorded_conf,
        num_ooms: best.worst_num_ooms(),
        serves_failed: after.map(|after| after.is_served),
        num_further: after.map_or(0, |after| after.num_further),
        num_after: after.map_or(0, |after| after.num_after),
        num_served_after: after.map_or(0, |after| after.num_served_after),
        reserved_peak_bytes: best.outcome.reserved_peak_bytes,
        worst_peak_bytes: best.worst_peak_bytes(),
        num_device_alloc: best.falling.num_device_alloc,
        num_device_free: best.falling.num_device_free,
        confidence: best.confidence,
    }))
}
