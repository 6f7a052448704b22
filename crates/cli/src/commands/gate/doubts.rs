//! Why the figures of a history may be too low.

#![forbid(unsafe_code)]

use memreel_snapshot::analysis::{Check, DeviceHistory};
use serde::{Deserialize, Serialize};

use crate::text::{
    count,
    warnings::{program_failure, warnings},
};

/// The figures that may be known where others are not. All others are known if the last is.
const FIGURES: [&str; 3] = ["peak", "live", "reserved"];

/// Why the figures of a history may be too low, one line each.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(super) struct Doubts {
    /// What limits the figures of an incomplete history.
    incomplete: Vec<String>,
    /// The figures for which these do not count, because the recorder knows them for the whole run.
    known: Vec<String>,
    /// What failed, so that the program may need more than it had.
    failed: Vec<String>,
}

impl Doubts {
    pub(super) fn of(history: &DeviceHistory<'_>) -> Doubts {
        let trust = history.trust();
        // Only what the recorder knows about the lost events is compared.
        let knows = trust.run_peak_bytes.is_some() && trust.is_exact();
        let known: Vec<String> = FIGURES
            .iter()
            .filter(|what| knows && history.knows(what))
            .map(|what| (*what).to_owned())
            .collect();
        let incomplete =
            if trust.is_whole() || known.len() == FIGURES.len() { Vec::new() } else { warnings(history) };
        let requests = history.oom().map(|report| {
            let n = count(report.n_ooms, "request");
            // Addresses are not memory.
            let so = match report.reserved_address_bytes {
                Some(_) => "the last one for addresses",
                None => "so the program may need more memory than it had",
            };
            format!("note: {n} failed, {so}; run `memreel oom` to see why")
        });
        let program = program_failure(history.snapshot())
            .map(|failed| format!("note: {failed}, so it may need more memory than it had"));
        Doubts { incomplete, known, failed: requests.into_iter().chain(program).collect() }
    }

    /// Returns those that matter to checks.
    pub(super) fn about(&self, whose: &str, checks: &[Check]) -> Vec<String> {
        let [peak, live, others] = FIGURES;
        let is_known = |check: &Check| {
            let what = if [peak, live].contains(&&*check.what) { &*check.what } else { others };
            self.known.iter().any(|known| known == what)
        };
        let incomplete = self.incomplete.iter().filter(|_| !checks.iter().all(is_known));
        incomplete.chain(&self.failed).map(|why| format!("{whose}{why}")).collect()
    }
}
